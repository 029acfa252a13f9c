//! What one template may cost.

/// How deep blocks, parentheses and template calls may nest. 100 is far above what people write, and each level takes
/// less than 2 KiB of stack.
pub const DEPTH_MAX: usize = 100;

/// Most nodes that one expansion visits: `range 1000000000` ends within milliseconds.
pub const STEPS_MAX: usize = 1_000_000;

/// Most bytes of one expanded text: 1 MiB, more than any notification service accepts.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
