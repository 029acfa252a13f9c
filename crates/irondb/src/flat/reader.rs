//! See [`Buffer`].

use std::cell::Cell;

/// 8 times the buffer: builders share equal strings and tag lists between tables; apart from that, each byte is read
/// once.
const SHARED_MAX: usize = 8;
/// 64 KiB beside it, for small buffers.
const SHARED_BYTES: usize = 64 * 1024;

/// The buffer violates the format; what was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the FlatBuffer is broken at its {0}")]
pub struct Malformed(pub &'static str);

/// Bytes that claim to be a FlatBuffer.
#[derive(Debug)]
pub struct Buffer<'b> {
    bytes: &'b [u8],
    /// Bytes that may still be read.
    left: Cell<usize>,
}

/// A table; its vtable was checked.
#[derive(Clone, Copy, Debug)]
pub struct Table<'b> {
    buffer: &'b Buffer<'b>,
    at: usize,
    vtable: usize,
    /// Bytes of the vtable.
    vtable_bytes: usize,
}

/// A vector of elements of one size.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'b> {
    buffer: &'b Buffer<'b>,
    at: usize,
    len: usize,
}

impl<'b> Buffer<'b> {
    /// For unchecked `bytes`.
    #[must_use]
    pub fn new(bytes: &'b [u8]) -> Self {
        let left = bytes.len().saturating_mul(SHARED_MAX).saturating_add(SHARED_BYTES);
        Self { bytes, left: Cell::new(left) }
    }

    /// The identifier after the first offset, if there are bytes for one.
    #[must_use]
    pub fn identifier(&self) -> Option<&'b [u8]> {
        self.bytes.get(4..8)
    }

    /// The root table of the buffer.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn root(&'b self) -> Result<Table<'b>, Malformed> {
        Table::at(self, self.forward(0, "root")?)
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize, what: &'static str) -> Result<[u8; N], Malformed> {
        at.checked_add(N)
            .and_then(|end| self.bytes.get(at..end))
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(Malformed(what))
    }

    /// The target of the offset at `at`.
    #[inline]
    fn forward(&self, at: usize, what: &'static str) -> Result<usize, Malformed> {
        let offset = u32::from_le_bytes(self.array(at, what)?) as usize;
        if offset == 0 {
            return Err(Malformed(what));
        }
        at.checked_add(offset).ok_or(Malformed(what))
    }

    #[inline]
    fn spend(&self, bytes: usize) -> Result<(), Malformed> {
        self.left.set(
            self.left
                .get()
                .checked_sub(bytes)
                .ok_or(Malformed("parts, which are shared more often than senders do"))?,
        );
        Ok(())
    }

    /// A vector at `at` whose elements have `size` bytes.
    #[inline]
    fn vector(&'b self, at: usize, size: usize, what: &'static str) -> Result<Vector<'b>, Malformed> {
        let len = u32::from_le_bytes(self.array(at, what)?) as usize;
        let bytes = len.checked_mul(size).ok_or(Malformed(what))?;
        let start = at + 4;
        if start.checked_add(bytes).is_none_or(|end| end > self.bytes.len()) {
            return Err(Malformed(what));
        }
        self.spend(4 + bytes)?;
        Ok(Vector { buffer: self, at: start, len })
    }

    fn text(&'b self, at: usize, what: &'static str) -> Result<&'b str, Malformed> {
        let bytes = self.vector(at, 1, what)?.bytes();
        std::str::from_utf8(bytes).map_err(|_| Malformed(what))
    }
}

impl<'b> Table<'b> {
    #[inline]
    fn at(buffer: &'b Buffer<'b>, at: usize) -> Result<Self, Malformed> {
        let back = i64::from(i32::from_le_bytes(buffer.array(at, "table")?));
        let vtable = (at as i64).checked_sub(back).and_then(|vtable| usize::try_from(vtable).ok());
        let vtable = vtable.ok_or(Malformed("vtable"))?;
        let vtable_bytes = usize::from(u16::from_le_bytes(buffer.array(vtable, "vtable")?));
        if vtable_bytes < 4 || vtable.checked_add(vtable_bytes).is_none_or(|end| end > buffer.bytes.len()) {
            return Err(Malformed("vtable"));
        }
        // The table length in the vtable is useless: Go's builder shares a vtable between tables of
        // different lengths. Each field is checked against the buffer.
        buffer.spend(vtable_bytes.max(16))?;
        Ok(Self { buffer, at, vtable, vtable_bytes })
    }

    /// The position of the field `id`, if present.
    #[inline]
    fn place(&self, id: usize) -> Result<Option<usize>, Malformed> {
        let entry = 4 + 2 * id;
        if entry + 2 > self.vtable_bytes {
            return Ok(None);
        }
        match usize::from(u16::from_le_bytes(self.buffer.array(self.vtable + entry, "vtable")?)) {
            0 => Ok(None),
            within if within >= 4 => Ok(Some(self.at + within)),
            _ => Err(Malformed("field")),
        }
    }

    #[inline]
    fn scalar<const N: usize>(&self, id: usize) -> Result<[u8; N], Malformed> {
        match self.place(id)? {
            Some(at) => self.buffer.array(at, "field"),
            None => Ok([0; N]),
        }
    }

    /// A number of one byte; 0 when it is not there.
    ///
    /// # Errors
    /// [`Malformed`], as for every field.
    pub fn u8(&self, id: usize) -> Result<u8, Malformed> {
        self.scalar::<1>(id).map(|[byte]| byte)
    }

    /// A signed number of one byte.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn i8(&self, id: usize) -> Result<i8, Malformed> {
        self.scalar::<1>(id).map(i8::from_le_bytes)
    }

    /// A number of four bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn u32(&self, id: usize) -> Result<u32, Malformed> {
        self.scalar(id).map(u32::from_le_bytes)
    }

    /// A signed number of four bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn i32(&self, id: usize) -> Result<i32, Malformed> {
        self.scalar(id).map(i32::from_le_bytes)
    }

    /// A float of four bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn f32(&self, id: usize) -> Result<f32, Malformed> {
        self.scalar(id).map(f32::from_le_bytes)
    }

    /// A number of eight bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn u64(&self, id: usize) -> Result<u64, Malformed> {
        self.scalar(id).map(u64::from_le_bytes)
    }

    /// A signed number of eight bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn i64(&self, id: usize) -> Result<i64, Malformed> {
        self.scalar(id).map(i64::from_le_bytes)
    }

    /// A float of eight bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn f64(&self, id: usize) -> Result<f64, Malformed> {
        self.scalar(id).map(f64::from_le_bytes)
    }

    fn target(&self, id: usize) -> Result<Option<usize>, Malformed> {
        self.place(id)?.map(|at| self.buffer.forward(at, "offset")).transpose()
    }

    /// A table below this one.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn table(&self, id: usize) -> Result<Option<Table<'b>>, Malformed> {
        self.target(id)?.map(|at| Self::at(self.buffer, at)).transpose()
    }

    /// A string.
    ///
    /// # Errors
    /// [`Malformed`], also when it is not UTF-8.
    pub fn text(&self, id: usize) -> Result<Option<&'b str>, Malformed> {
        self.target(id)?.map(|at| self.buffer.text(at, "string")).transpose()
    }

    /// A vector of elements of `size` bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn vector(&self, id: usize, size: usize) -> Result<Option<Vector<'b>>, Malformed> {
        self.target(id)?.map(|at| self.buffer.vector(at, size, "vector")).transpose()
    }
}

impl<'b> Vector<'b> {
    /// How many elements it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements of a vector of bytes.
    #[must_use]
    pub fn bytes(&self) -> &'b [u8] {
        &self.buffer.bytes[self.at..self.at + self.len]
    }

    /// Each element of `N` bytes, as stored.
    pub fn structs<const N: usize>(&self) -> impl Iterator<Item = &'b [u8; N]> + use<'b, N> {
        let bytes = &self.buffer.bytes[self.at..self.at + self.len * N];
        bytes.as_chunks::<N>().0.iter()
    }

    /// Each table to which the elements point.
    pub fn tables(&self) -> impl Iterator<Item = Result<Table<'b>, Malformed>> + use<'b> {
        let (buffer, at) = (self.buffer, self.at);
        (0..self.len).map(move |number| Table::at(buffer, buffer.forward(at + 4 * number, "element")?))
    }

    /// Each string to which the elements point.
    pub fn texts(&self) -> impl Iterator<Item = Result<&'b str, Malformed>> + use<'b> {
        let (buffer, at) = (self.buffer, self.at);
        (0..self.len).map(move |number| buffer.text(buffer.forward(at + 4 * number, "element")?, "string"))
    }
}
