//! See [`Writer`].

/// A value of a field.
#[derive(Clone, Debug)]
pub enum Node {
    /// It is not there.
    None,
    /// A scalar, as stored in the table: 1, 2, 4 or 8 bytes.
    Scalar(Vec<u8>),
    /// A string.
    Text(String),
    /// A vector of consecutive scalars or structs; their alignment, and their number.
    Flat(Vec<u8>, usize, usize),
    /// A vector of strings or tables.
    List(Vec<Node>),
    /// A table, its fields by their ids.
    Table(Vec<Node>),
}

impl Node {
    /// One byte.
    #[must_use]
    pub fn u8(value: u8) -> Self {
        Self::Scalar(vec![value])
    }

    /// Four bytes.
    #[must_use]
    pub fn u32(value: u32) -> Self {
        Self::Scalar(value.to_le_bytes().into())
    }

    /// Eight bytes.
    #[must_use]
    pub fn u64(value: u64) -> Self {
        Self::Scalar(value.to_le_bytes().into())
    }

    /// A float of eight bytes.
    #[must_use]
    pub fn f64(value: f64) -> Self {
        Self::Scalar(value.to_le_bytes().into())
    }

    /// A string.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

/// Writes a FlatBuffer front to back: each table after its vtable, followed by what it points to.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// The buffer of a table, with an identifier after the first offset, if any.
    #[must_use]
    pub fn finish(root: &Node, identifier: Option<[u8; 4]>) -> Vec<u8> {
        let mut writer = Self { out: vec![0; 4] };
        writer.out.extend(identifier.unwrap_or_default());
        let at = writer.node(root);
        writer.patch(0, at);
        writer.out
    }

    fn align(&mut self, to: usize, ahead: usize) {
        while !(self.out.len() + ahead).is_multiple_of(to) {
            self.out.push(0);
        }
    }

    /// Writes the offset from `at` to `target` there.
    fn patch(&mut self, at: usize, target: usize) {
        let offset = (target - at) as u32;
        self.out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }

    /// Writes the target of an offset; returns its position.
    fn node(&mut self, node: &Node) -> usize {
        match node {
            Node::Text(text) => {
                self.align(4, 0);
                let at = self.out.len();
                self.out.extend((text.len() as u32).to_le_bytes());
                self.out.extend(text.as_bytes());
                self.out.push(0);
                at
            }
            Node::Flat(bytes, align, len) => {
                self.align((*align).max(4), 4);
                let at = self.out.len();
                self.out.extend((*len as u32).to_le_bytes());
                self.out.extend(bytes);
                at
            }
            Node::List(nodes) => {
                self.align(4, 0);
                let at = self.out.len();
                self.out.extend((nodes.len() as u32).to_le_bytes());
                self.out.resize(at + 4 + 4 * nodes.len(), 0);
                for (number, node) in nodes.iter().enumerate() {
                    let target = self.node(node);
                    self.patch(at + 4 + 4 * number, target);
                }
                at
            }
            Node::Table(fields) => self.table(fields),
            Node::None | Node::Scalar(_) => unreachable!("nothing leads to a scalar"),
        }
    }

    fn table(&mut self, fields: &[Node]) -> usize {
        // Wide fields first, so that each is aligned.
        let size = |node: &Node| match node {
            Node::None => 0,
            Node::Scalar(bytes) => bytes.len(),
            _ => 4,
        };
        let mut order: Vec<usize> = (0..fields.len()).filter(|id| size(&fields[*id]) > 0).collect();
        order.sort_by_key(|id| std::cmp::Reverse(size(&fields[*id])));
        let vtable_bytes = 4 + 2 * fields.len();
        // The table begins 4 before a multiple of 8, and its first field at that multiple.
        self.align(2, 0);
        while !(self.out.len() + vtable_bytes + 4).is_multiple_of(8) {
            self.out.push(0);
        }
        let (vtable, at) = (self.out.len(), self.out.len() + vtable_bytes);
        let mut places = vec![0_u16; fields.len()];
        let mut within = 4;
        for id in &order {
            places[*id] = within as u16;
            within += size(&fields[*id]);
        }
        self.out.extend((vtable_bytes as u16).to_le_bytes());
        self.out.extend((within as u16).to_le_bytes());
        places.iter().for_each(|place| self.out.extend(place.to_le_bytes()));
        self.out.extend(((at - vtable) as i32).to_le_bytes());
        for id in &order {
            match &fields[*id] {
                Node::Scalar(bytes) => self.out.extend(bytes),
                _ => self.out.extend([0; 4]),
            }
        }
        for id in order {
            if !matches!(fields[id], Node::Scalar(_)) {
                let target = self.node(&fields[id]);
                self.patch(at + usize::from(places[id]), target);
            }
        }
        at
    }
}
