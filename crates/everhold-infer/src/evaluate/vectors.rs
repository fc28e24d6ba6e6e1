//! The width of the vectors that whole columns and sets of rows are processed with.

use fearless_simd::Level;

/// The vector instructions to use. Results do not depend on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors(pub(crate) Option<Level>);

impl Vectors {
    /// The widest vectors of this machine.
    pub(crate) fn widest() -> Vectors {
        Vectors(Some(Level::new()))
    }

    /// No vectors: the plain loops, with which tests compare the others.
    #[cfg(test)]
    pub(crate) fn none() -> Vectors {
        Vectors(None)
    }
}
