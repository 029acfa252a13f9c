//! An Arrow IPC file: fields, columns, and the messages that hold them.
//!
//! Format: arrow.apache.org/docs/format/Columnar.html and its `format/{Schema,Message,File}.fbs`, metadata version 5,
//! little endian, nothing compressed. docs/formats/arrow.md says what Ogive puts in.
//! Invariants: a column has as many buffers as its type says and each is as long as its rows need; a message and each
//! buffer in it begins at a multiple of [`ALIGNMENT`] of the file, so that a reader can map it.

use super::flat::{Field as Slot, Table, buffer};

/// 64 bytes: a cache line, the alignment that Arrow recommends and other writers use.
const ALIGNMENT: usize = 64;
/// `MetadataVersion.V5`.
const VERSION: i16 = 4;
/// Members of the union `MessageHeader`.
const SCHEMA: u8 = 1;
const DICTIONARY: u8 = 2;
const BATCH: u8 = 3;

/// The type of a column.
pub(super) enum Type {
    /// Milliseconds since 1970, UTC.
    Time,
    Float,
    Bool,
    Text,
    /// Texts by their number in the dictionary with this id.
    Dictionary(i64),
    Struct(Vec<Field>),
    List(Box<Field>),
}

/// A column's name and type.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) nullable: bool,
    pub(super) metadata: Vec<(String, String)>,
}

impl Field {
    pub(super) fn new(name: &str, kind: Type) -> Self {
        Self { name: name.into(), kind, nullable: false, metadata: Vec::new() }
    }

    pub(super) fn nullable(name: &str, kind: Type) -> Self {
        Self { nullable: true, ..Self::new(name, kind) }
    }

    fn table(&self) -> Table {
        let (code, kind, children): (u8, Table, &[Self]) = match &self.kind {
            Type::Time => (10, vec![Some(Slot::Short(1)), Some(Slot::Text("UTC".into()))], &[]),
            Type::Float => (3, vec![Some(Slot::Short(2))], &[]),
            Type::Bool => (6, Vec::new(), &[]),
            Type::Text | Type::Dictionary(_) => (5, Vec::new(), &[]),
            Type::Struct(fields) => (13, Vec::new(), fields),
            Type::List(item) => (12, Vec::new(), std::slice::from_ref(&**item)),
        };
        let index = || vec![Some(Slot::Int(32)), Some(Slot::Byte(1))];
        let dictionary = match self.kind {
            Type::Dictionary(id) => Some(Slot::Table(vec![Some(Slot::Long(id)), Some(Slot::Table(index()))])),
            _ => None,
        };
        vec![
            Some(Slot::Text(self.name.clone())),
            Some(Slot::Byte(self.nullable.into())),
            Some(Slot::Byte(code)),
            Some(Slot::Table(kind)),
            dictionary,
            Some(Slot::Tables(children.iter().map(Self::table).collect())),
            pairs(&self.metadata),
        ]
    }
}

fn pairs(metadata: &[(String, String)]) -> Option<Slot> {
    let pair = |(key, value): &(String, String)| vec![Some(Slot::Text(key.clone())), Some(Slot::Text(value.clone()))];
    (!metadata.is_empty()).then(|| Slot::Tables(metadata.iter().map(pair).collect()))
}

/// A column's rows: a validity bitmap, the buffers of its type, and the child columns.
pub(super) struct Column {
    rows: usize,
    nulls: usize,
    buffers: Vec<Vec<u8>>,
    children: Vec<Self>,
}

impl Column {
    pub(super) fn times(times: impl Iterator<Item = i64>) -> Self {
        let values: Vec<u8> = times.flat_map(i64::to_le_bytes).collect();
        Self { rows: values.len() / 8, nulls: 0, buffers: vec![Vec::new(), values], children: Vec::new() }
    }

    pub(super) fn floats(values: impl Iterator<Item = Option<f64>>) -> Self {
        let mut there = Vec::new();
        let bytes = values.flat_map(|value| {
            there.push(value.is_some());
            value.unwrap_or_default().to_le_bytes()
        });
        let bytes: Vec<u8> = bytes.collect();
        Self::new(&there, vec![bytes], Vec::new())
    }

    pub(super) fn bools(values: &[bool]) -> Self {
        Self::new(&vec![true; values.len()], vec![bitmap(values)], Vec::new())
    }

    pub(super) fn numbers(indexes: impl Iterator<Item = Option<i32>>) -> Self {
        let mut there = Vec::new();
        let bytes = indexes.flat_map(|index| {
            there.push(index.is_some());
            index.unwrap_or_default().to_le_bytes()
        });
        let bytes: Vec<u8> = bytes.collect();
        Self::new(&there, vec![bytes], Vec::new())
    }

    pub(super) fn texts<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Self {
        let (mut there, mut bytes, mut offsets) = (Vec::new(), Vec::new(), vec![0; 4]);
        for text in texts {
            there.push(text.is_some());
            bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
            offsets.extend_from_slice(&offset(bytes.len()));
        }
        Self::new(&there, vec![offsets, bytes], Vec::new())
    }

    /// Lists, each with the given number of `items`.
    pub(super) fn lists(counts: impl Iterator<Item = usize>, items: Self) -> Self {
        let (mut offsets, mut end, mut rows) = (vec![0; 4], 0, 0);
        for count in counts {
            end += count;
            rows += 1;
            offsets.extend_from_slice(&offset(end));
        }
        assert_eq!(end, items.rows, "every item is in a list");
        Self::new(&vec![true; rows], vec![offsets], vec![items])
    }

    /// Structs: `there` marks the non-null ones.
    pub(super) fn structs(there: &[bool], children: Vec<Self>) -> Self {
        for child in &children {
            assert_eq!(child.rows, there.len(), "a struct's columns are as long as it");
        }
        Self::new(there, Vec::new(), children)
    }

    fn new(there: &[bool], buffers: Vec<Vec<u8>>, children: Vec<Self>) -> Self {
        let nulls = there.iter().filter(|there| !**there).count();
        let known = if nulls > 0 { bitmap(there) } else { Vec::new() };
        Self { rows: there.len(), nulls, buffers: [vec![known], buffers].concat(), children }
    }

    /// This column and its children, parents first.
    fn walk<'a>(&'a self, out: &mut Vec<&'a Self>) {
        out.push(self);
        self.children.iter().for_each(|child| child.walk(out));
    }
}

/// The end of a text or list: 32 bits suffice, because a batch is made from a response of at most 1 GiB.
fn offset(end: usize) -> [u8; 4] {
    i32::try_from(end).expect("a batch is below 2 GiB").to_le_bytes()
}

/// One bit for each value, the first in the lowest bit.
fn bitmap(values: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| eight.iter().enumerate().fold(0, |byte, (at, value)| byte | u8::from(*value) << at);
    values.chunks(8).map(byte).collect()
}

/// The position of a message, for the footer.
struct Block {
    offset: usize,
    metadata: usize,
    body: usize,
}

/// A file under construction.
pub(super) struct File {
    out: Vec<u8>,
    fields: Vec<Field>,
    metadata: Vec<(String, String)>,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl File {
    pub(super) fn new(fields: Vec<Field>, metadata: Vec<(String, String)>) -> Self {
        let out = b"ARROW1\0\0".to_vec();
        let (dictionaries, batches) = (Vec::new(), Vec::new());
        let mut file = Self { out, fields, metadata, dictionaries, batches };
        let header = schema(&file.fields, &file.metadata);
        file.message(SCHEMA, header, &[]);
        file
    }

    /// The texts of the dictionary `id`; before the first batch.
    pub(super) fn dictionary(&mut self, id: i64, texts: &Column) {
        let (batch, body) = record_batch(&[texts]);
        let header = vec![Some(Slot::Long(id)), Some(Slot::Table(batch))];
        let block = self.message(DICTIONARY, header, &body);
        self.dictionaries.push(block);
    }

    /// Adds rows: a column for each field.
    pub(super) fn batch(&mut self, columns: &[Column]) {
        assert_eq!(columns.len(), self.fields.len(), "each field has its column");
        let (header, body) = record_batch(&columns.iter().collect::<Vec<_>>());
        let block = self.message(BATCH, header, &body);
        self.batches.push(block);
    }

    /// The file's bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // No more messages; then the footer, its length and the name of the format again.
        self.out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let blocks = |blocks: &[Block]| {
            let words = |block: &Block| [block.offset as i64, block.metadata as i64, block.body as i64];
            Some(Slot::Structs(blocks.iter().flat_map(words).collect(), blocks.len()))
        };
        let footer = buffer(&vec![
            Some(Slot::Short(VERSION)),
            Some(Slot::Table(schema(&self.fields, &self.metadata))),
            blocks(&self.dictionaries),
            blocks(&self.batches),
        ]);
        self.out.extend_from_slice(&footer);
        self.out.extend_from_slice(&offset(footer.len()));
        self.out.extend_from_slice(b"ARROW1");
        self.out
    }

    fn message(&mut self, kind: u8, header: Table, body: &[u8]) -> Block {
        let offset = self.out.len();
        let metadata = buffer(&vec![
            Some(Slot::Short(VERSION)),
            Some(Slot::Byte(kind)),
            Some(Slot::Table(header)),
            Some(Slot::Long(body.len() as i64)),
        ]);
        // Padding belongs to the metadata, so that the body is aligned.
        let end = (offset + 8 + metadata.len()).next_multiple_of(ALIGNMENT);
        let size = i32::try_from(end - offset - 8).expect("metadata is far below 2 GiB");
        self.out.extend_from_slice(&u32::MAX.to_le_bytes());
        self.out.extend_from_slice(&size.to_le_bytes());
        self.out.extend_from_slice(&metadata);
        self.out.resize(end, 0);
        self.out.extend_from_slice(body);
        assert_eq!(self.out.len() % ALIGNMENT, 0, "the next message is aligned");
        Block { offset, metadata: end - offset, body: body.len() }
    }
}

fn schema(fields: &[Field], metadata: &[(String, String)]) -> Table {
    vec![None, Some(Slot::Tables(fields.iter().map(Field::table).collect())), pairs(metadata)]
}

/// The table of a record batch, and its body.
fn record_batch(columns: &[&Column]) -> (Table, Vec<u8>) {
    let (mut all, mut body) = (Vec::new(), Vec::new());
    columns.iter().for_each(|column| column.walk(&mut all));
    let mut buffers = Vec::new();
    for bytes in all.iter().flat_map(|column| &column.buffers) {
        buffers.extend([body.len() as i64, bytes.len() as i64]);
        body.extend_from_slice(bytes);
        body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
    }
    let nodes: Vec<i64> = all.iter().flat_map(|column| [column.rows as i64, column.nulls as i64]).collect();
    let rows = columns.first().map_or(0, |column| column.rows);
    let (node_count, buffer_count) = (all.len(), buffers.len() / 2);
    let table = vec![
        Some(Slot::Long(rows as i64)),
        Some(Slot::Structs(nodes, node_count)),
        Some(Slot::Structs(buffers, buffer_count)),
    ];
    (table, body)
}
