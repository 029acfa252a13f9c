//! What few connections need: a pointer's size until then.

/// A value that is its default until it is made.
#[derive(Debug, Clone)]
pub(crate) struct LazyBox<T>(Option<Box<T>>);

impl<T> Default for LazyBox<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Default> LazyBox<T> {
    /// The value, unless it is its default.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// The value, and the default in its place.
    pub(crate) fn take(&mut self) -> T {
        self.0.take().map_or_else(T::default, |value| *value)
    }

    /// The value to change.
    pub(crate) fn make(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
