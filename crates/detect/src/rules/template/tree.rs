//! The syntax tree of a template.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::value::Value;

/// Part of a template.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Copied unchanged.
    Text(String),
    /// A pipeline whose value is printed, unless it declares or assigns.
    Action(Pipe),
    /// `if`, `with` or `range`.
    Branch { kind: BranchKind, pipe: Pipe, body: Vec<Node>, otherwise: Vec<Node> },
    /// `template "name" pipeline`.
    Call { name: String, pipe: Option<Pipe> },
    /// `break`.
    Break,
    /// `continue`.
    Continue,
}

/// The kind of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BranchKind {
    If,
    With,
    Range,
}

/// Commands, each of which gets the value of the previous one.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    /// Variables that are set to the value.
    pub(crate) variables: Vec<String>,
    /// Whether the variables are there already.
    pub(crate) assigns: bool,
    /// Each consists of its operands; the first may be a function.
    pub(crate) commands: Vec<Vec<Operand>>,
    /// Line of the text, from 1.
    pub(crate) line: usize,
}

/// An operand of a command.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Dot,
    Constant(Value),
    /// `.A.B`
    Field(Vec<String>),
    /// `$x.A.B`
    Variable(String, Vec<String>),
    /// `(pipeline).A.B`
    Chain(Box<Pipe>, Vec<String>),
    Function(String),
}

/// The bodies that `define` and `block` name.
pub(crate) type Definitions = BTreeMap<String, Arc<Vec<Node>>>;
