//! FlatBuffers that are written and never read here: the metadata of Arrow files.
//!
//! Format: flatbuffers.dev/internals. Children stand behind their parents, so that every offset points forward as it
//! must.
//! Limits: a message is some KB; the 2 GiB of a 32 bit offset are asserted.

/// A table: its fields by slot, `None` for the default value.
pub(super) type Table = Vec<Option<Field>>;

/// The value of a slot.
pub(super) enum Field {
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Text(String),
    Table(Table),
    Tables(Vec<Table>),
    /// A vector of structs of eight-byte words: the words of each, one struct after the other.
    Structs(Vec<i64>, usize),
}

impl Field {
    /// Bytes inside the table.
    const fn size(&self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Short(_) => 2,
            Self::Long(_) => 8,
            Self::Int(_) | Self::Text(_) | Self::Table(_) | Self::Tables(_) | Self::Structs(..) => 4,
        }
    }
}

/// The buffer with `root`.
pub(super) fn buffer(root: &Table) -> Vec<u8> {
    let mut out = vec![0; 4];
    let at = table(&mut out, root);
    point(&mut out, 0, at);
    out
}

/// Pads until `out` is `rest` bytes beyond a multiple of eight.
fn pad(out: &mut Vec<u8>, rest: usize) {
    while out.len() % 8 != rest {
        out.push(0);
    }
}

/// Makes the offset at `from` point to `to`.
fn point(out: &mut [u8], from: usize, to: usize) {
    let offset = u32::try_from(to - from).expect("metadata is far below 4 GiB");
    out[from..from + 4].copy_from_slice(&offset.to_le_bytes());
}

/// Writes the table with all that it points to; where it is.
fn table(out: &mut Vec<u8>, fields: &Table) -> usize {
    // Large fields first: each is then aligned automatically, because the table begins four bytes before a multiple of
    // eight.
    let mut order: Vec<usize> = (0..fields.len()).filter(|slot| fields[*slot].is_some()).collect();
    let size = |slot: usize| fields[slot].as_ref().map_or(0, Field::size);
    order.sort_by_key(|slot| std::cmp::Reverse(size(*slot)));
    let inline = 4 + order.iter().map(|slot| size(*slot)).sum::<usize>();
    let mut offsets = vec![0_u16; fields.len()];
    let mut at = 4;
    for slot in &order {
        offsets[*slot] = u16::try_from(at).expect("a table has a few fields");
        at += size(*slot);
    }
    let vtable_size = 4 + 2 * fields.len();
    pad(out, (12 - vtable_size % 8) % 8);
    let vtable = out.len();
    for word in [vtable_size, inline] {
        out.extend_from_slice(&u16::try_from(word).expect("a table has a few fields").to_le_bytes());
    }
    offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
    let start = out.len();
    assert_eq!(start % 8, 4, "a table's fields are aligned");
    out.extend_from_slice(&i32::try_from(start - vtable).expect("a vtable is small").to_le_bytes());
    let mut children = Vec::new();
    for slot in order {
        match fields[slot].as_ref().expect("it was there before") {
            Field::Byte(value) => out.push(*value),
            Field::Short(value) => out.extend_from_slice(&value.to_le_bytes()),
            Field::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Field::Long(value) => out.extend_from_slice(&value.to_le_bytes()),
            child => {
                children.push((out.len(), child));
                out.extend_from_slice(&[0; 4]);
            }
        }
    }
    for (from, field) in children {
        let to = child(out, field);
        point(out, from, to);
    }
    start
}

/// Writes the value that a field points to; returns its position.
fn child(out: &mut Vec<u8>, field: &Field) -> usize {
    match field {
        Field::Table(fields) => table(out, fields),
        Field::Text(text) => {
            pad(out, 4);
            let at = length(out, text.len());
            out.extend_from_slice(text.as_bytes());
            out.push(0);
            at
        }
        Field::Structs(words, count) => {
            // The words behind the count are aligned to eight bytes.
            pad(out, 4);
            let at = length(out, *count);
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            at
        }
        Field::Tables(tables) => {
            pad(out, 4);
            let at = length(out, tables.len());
            out.resize(out.len() + 4 * tables.len(), 0);
            for (index, one) in tables.iter().enumerate() {
                let to = table(out, one);
                point(out, at + 4 + 4 * index, to);
            }
            at
        }
        Field::Byte(_) | Field::Short(_) | Field::Int(_) | Field::Long(_) => unreachable!("it stands inside its table"),
    }
}

fn length(out: &mut Vec<u8>, count: usize) -> usize {
    let at = out.len();
    out.extend_from_slice(&u32::try_from(count).expect("metadata is far below 4 GiB").to_le_bytes());
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A little of a reader: enough to follow what was written.
    struct At<'a>(&'a [u8], usize);

    impl At<'_> {
        fn int(&self, at: usize) -> usize {
            u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap()) as usize
        }

        fn slot(&self, slot: usize) -> Option<usize> {
            let vtable = self.1 - self.int(self.1);
            let word = |at: usize| usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]));
            let offset = if 4 + 2 * slot < word(vtable) { word(vtable + 4 + 2 * slot) } else { 0 };
            (offset > 0).then_some(self.1 + offset)
        }

        fn follow(&self, slot: usize) -> usize {
            let at = self.slot(slot).unwrap();
            at + self.int(at)
        }
    }

    #[test]
    fn what_is_written_can_be_followed() {
        let inner = |number: i32| vec![None, Some(Field::Int(number))];
        let root = vec![
            Some(Field::Byte(7)),
            Some(Field::Text("name".into())),
            None,
            Some(Field::Long(-5)),
            Some(Field::Structs(vec![1, 2, 3, 4], 2)),
            Some(Field::Tables(vec![inner(10), inner(11)])),
            Some(Field::Short(-2)),
        ];
        let bytes = buffer(&root);
        let root = At(&bytes, At(&bytes, 0).int(0));
        assert_eq!(bytes[root.slot(0).unwrap()], 7);
        let name = root.follow(1);
        assert_eq!((root.int(name), &bytes[name + 4..name + 9]), (4, &b"name\0"[..]));
        assert!(root.slot(2).is_none() && root.slot(7).is_none());
        let long = root.slot(3).unwrap();
        assert_eq!((long % 8, &bytes[long..long + 8]), (0, &(-5_i64).to_le_bytes()[..]));
        let structs = root.follow(4);
        assert_eq!((root.int(structs), (structs + 4) % 8, bytes[structs + 4 + 8]), (2, 0, 2));
        let tables = root.follow(5);
        for at in 0..2 {
            let place = tables + 4 + 4 * at;
            let one = At(&bytes, place + root.int(place));
            assert_eq!(one.int(one.slot(1).unwrap()), 10 + at);
        }
        let short = root.slot(6).unwrap();
        assert_eq!((short % 2, &bytes[short..short + 2]), (0, &(-2_i16).to_le_bytes()[..]));
    }
}
