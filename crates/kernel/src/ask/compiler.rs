//! Compiles a question to instructions: resolves names and fields, and checks the type of every value.
//!
//! Invariants: registers form a stack, a text occupies four of them; a question that does not fit is a [`Mistake`], as
//! is a name that the probe does not have.

mod values;

use ogive_text::near::suggestion;

use super::code::{
    ARGUMENTS, CALL_ARGUMENTS, Context, Header, INSTRUCTIONS, Instruction, LAYOUTS, Op, PLACE_BYTES, REGISTERS,
    TEXT_BYTES, TEXT_REGISTERS,
};
use super::mistake::Mistake;
use super::syntax::{Expression, Form, Probe, Question, Verb};
use super::types::{RecordField, Shape, Types, Usdt};
use super::usdt::{Argument, Operand};
use crate::syscalls::number_of;

/// How the values of a key are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A number with a sign.
    Number,
    /// Nanoseconds.
    Duration,
    /// An address of memory.
    Address,
    /// The number of a system call.
    Call,
    /// A text.
    Text,
}

/// A question that can be loaded.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Where events come from.
    pub probe: Probe,
    /// What is made of them.
    pub verb: Verb,
    /// The text and the kind of each key.
    pub keys: Vec<(String, KeyKind)>,
    /// Whether the value is nanoseconds.
    pub is_duration: bool,
    pub(super) code: Vec<Instruction>,
    /// Arguments of the tracepoint.
    pub(super) arguments: u32,
    /// Whether what was noted at a call is needed at its return.
    pub(super) needs_call: bool,
    /// The number of a system call.
    pub(super) call: Option<u32>,
    /// Where a USDT probe is.
    pub(super) usdt: Usdt,
}

impl Compiled {
    /// As the programs read it: `struct question`.
    #[must_use]
    pub fn constants(&self) -> Vec<u8> {
        let header = Header {
            arguments: self.arguments,
            verb: self.verb,
            needs_call: self.needs_call,
            call: self.call.map_or(-1, i64::from),
        };
        header.bytes(&self.code)
    }

    /// Where the arguments of a USDT probe are, as the programs read it: `places`.
    #[must_use]
    pub fn places(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LAYOUTS * ARGUMENTS * PLACE_BYTES);
        for (at, layout) in self.usdt.layouts.iter().enumerate() {
            bytes.resize(at * ARGUMENTS * PLACE_BYTES, 0);
            bytes.extend(layout.iter().flat_map(Argument::constant));
        }
        bytes.resize(LAYOUTS * ARGUMENTS * PLACE_BYTES, 0);
        bytes
    }
}

/// What is in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number { is_duration: bool },
    Pointer(Option<u32>),
    Call,
    Text,
}

/// What an expression names: a value in registers, or memory behind an address in a register.
enum Place {
    Value(Value),
    Memory { offset: u32, shape: Shape },
}

struct Compiler<'t> {
    types: &'t dyn Types,
    probe: &'t Probe,
    arguments: Vec<(String, Shape)>,
    /// Fields of a tracepoint's record.
    record: Vec<RecordField>,
    code: Vec<Instruction>,
    needs_call: bool,
    /// Arguments up to the last one that is used.
    used: usize,
}

/// Compiles a question.
///
/// # Errors
/// With the first mistake: a name that is not there, or a value that cannot be.
pub fn compile(question: &Question, types: &dyn Types) -> Result<Compiled, Mistake> {
    let probe = &question.probe;
    let (arguments, usdt) = arguments_of(question, types)?;
    let record = record_of(question, types)?;
    let call = match probe {
        Probe::Call(Some(name)) => Some(call_named(name, question.probe_at)?),
        _ => None,
    };
    let count = arguments.len().min(ARGUMENTS);
    let mut compiler = Compiler { types, probe, arguments, record, code: Vec::new(), needs_call: false, used: 0 };
    if let Some(filter) = &question.filter {
        match compiler.value(filter, 0)? {
            Value::Text => return Err(Mistake::new(filter.at, "a filter is a number; compare the text with ==")),
            _ => compiler.emit(filter.at, Op::Require, 0, 0, 0, 0)?,
        }
    }
    let mut is_duration = false;
    if let Some(value) = &question.value {
        match compiler.value(value, 0)? {
            Value::Text => return Err(Mistake::new(value.at, "a text is a key, and no number")),
            found => is_duration = found == Value::Number { is_duration: true },
        }
        compiler.emit(value.at, Op::Value, 0, 0, 0, 0)?;
    }
    let mut keys = Vec::new();
    for (index, (text, key)) in (0..).zip(&question.keys) {
        let kind = match compiler.value(key, 0)? {
            Value::Number { is_duration: false } => KeyKind::Number,
            Value::Number { is_duration: true } => KeyKind::Duration,
            Value::Pointer(_) => KeyKind::Address,
            Value::Call => KeyKind::Call,
            Value::Text => KeyKind::Text,
        };
        compiler.emit(key.at, Op::Key, index, 0, 0, i64::from(kind == KeyKind::Text))?;
        keys.push((text.clone(), kind));
    }
    Ok(Compiled {
        probe: probe.clone(),
        verb: question.verb,
        keys,
        is_duration,
        needs_call: compiler.needs_call,
        code: compiler.code,
        // A program's memory is read for those alone that the question uses.
        arguments: if matches!(probe, Probe::Usdt { .. }) { compiler.used } else { count } as u32,
        call,
        usdt,
    })
}

/// The arguments that every place of the probe has.
fn shapes(usdt: &Usdt) -> Vec<(String, Shape)> {
    let count = usdt.layouts.iter().map(Vec::len).min().unwrap_or(0);
    let shape = |at: usize| {
        let unknown = usdt.layouts.iter().find_map(|layout| match &layout[at].operand {
            Operand::Unknown(text) => Some(Shape::Other(text.clone())),
            Operand::Value { .. } | Operand::Memory { .. } => None,
        });
        // The programs cut it by its size.
        unknown.unwrap_or(Shape::Number { bytes: 8, is_signed: true })
    };
    (0..count).map(|at| (format!("arg{at}"), shape(at))).collect()
}

/// The arguments that the probe has by name, and where they are, of a USDT probe.
fn arguments_of(question: &Question, types: &dyn Types) -> Result<(Vec<(String, Shape)>, Usdt), Mistake> {
    let mistake = |prefix: &str, reason| Mistake::new(question.probe_at + prefix.len(), reason);
    match &question.probe {
        Probe::Usdt { path, provider, name } => {
            let usdt = types.usdt(path, provider, name).map_err(|reason| mistake("usdt:", reason))?;
            Ok((shapes(&usdt), usdt))
        }
        Probe::Point(name) => {
            let arguments = types.point(name).ok_or_else(|| {
                let points = types.points();
                let meant = suggestion(points.iter().map(String::as_str), name);
                mistake("tp_btf:", format!("this kernel has no tracepoint {name:?}{meant}"))
            })?;
            Ok((arguments, Usdt::default()))
        }
        Probe::Function { .. } | Probe::Call(_) | Probe::Profile(_) | Probe::Interval(_) | Probe::Record { .. } => {
            Ok(Default::default())
        }
    }
}

/// The fields of the record of a tracepoint.
fn record_of(question: &Question, types: &dyn Types) -> Result<Vec<RecordField>, Mistake> {
    let Probe::Record { category, name } = &question.probe else { return Ok(Vec::new()) };
    let at = question.probe_at + "tracepoint:".len();
    types.record(category, name).map_err(|reason| Mistake::new(at, reason))
}

fn call_named(name: &str, probe_at: usize) -> Result<u32, Mistake> {
    number_of(name).ok_or_else(|| {
        let meant = suggestion(crate::syscalls::names(), name);
        Mistake::new(probe_at + "syscall:".len(), format!("there is no system call {name:?}{meant}"))
    })
}

/// Names that every probe has.
const ALWAYS: [(&str, Context); 5] = [
    ("pid", Context::Pid),
    ("tid", Context::Tid),
    ("cpu", Context::Cpu),
    ("uid", Context::UserId),
    ("cgroup", Context::CgroupId),
];

impl Compiler<'_> {
    fn emit(&mut self, at: usize, op: Op, to: u8, a: u8, b: u8, number: i64) -> Result<(), Mistake> {
        self.push(at, Instruction { op, to, a, b, size: 0, number })
    }

    fn push(&mut self, at: usize, instruction: Instruction) -> Result<(), Mistake> {
        if self.code.len() == INSTRUCTIONS {
            return Err(Mistake::new(at, format!("the question takes more than {INSTRUCTIONS} steps")));
        }
        self.code.push(instruction);
        Ok(())
    }

    /// Room for a value in `to` and the registers behind it.
    fn room(at: usize, to: u8, registers: u8) -> Result<(), Mistake> {
        let fits = to + registers <= REGISTERS;
        if fits { Ok(()) } else { Err(Mistake::new(at, "too much is computed at once here: nest less")) }
    }

    /// Puts the value of an expression into register `to`.
    fn value(&mut self, expression: &Expression, to: u8) -> Result<Value, Mistake> {
        match self.place(expression, to)? {
            Place::Value(value) => Ok(value),
            Place::Memory { offset, shape } => self.load(expression.at, offset, &shape, to),
        }
    }

    fn number(&mut self, expression: &Expression, to: u8) -> Result<Value, Mistake> {
        match self.value(expression, to)? {
            Value::Text => Err(Mistake::new(expression.at, "a number should be here, and this is a text")),
            value => Ok(value),
        }
    }

    fn place(&mut self, expression: &Expression, to: u8) -> Result<Place, Mistake> {
        let at = expression.at;
        Self::room(at, to, 1)?;
        match &expression.form {
            Form::Number { value, is_duration } => {
                self.emit(at, Op::Constant, to, 0, 0, *value)?;
                Ok(Place::Value(Value::Number { is_duration: *is_duration }))
            }
            Form::Text(text) => self.text(at, text, to).map(Place::Value),
            Form::Name(name) => match self.record.iter().find(|field| field.name == *name) {
                Some(field) => {
                    let (offset, shape) = (field.offset, field.shape.clone());
                    self.emit(at, Op::Argument, to, 0, 0, 0)?;
                    Ok(Place::Memory { offset, shape })
                }
                None => self.name(at, name, to).map(Place::Value),
            },
            Form::Field(base, field) => self.field(at, base, field, to),
            Form::Function(name, argument) => self.function(at, name, argument, to).map(Place::Value),
            Form::Unary(operator, operand) => self.unary(at, *operator, operand, to).map(Place::Value),
            Form::Binary(operator, left, right) => self.binary(at, *operator, left, right, to).map(Place::Value),
        }
    }

    fn text(&mut self, at: usize, text: &str, to: u8) -> Result<Value, Mistake> {
        Self::room(at, to, TEXT_REGISTERS)?;
        if text.len() > TEXT_BYTES {
            return Err(Mistake::new(at, format!("texts are compared by their first {TEXT_BYTES} bytes: shorten it")));
        }
        let mut bytes = [0; TEXT_REGISTERS as usize * 8];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        for (register, word) in (to..).zip(bytes.chunks_exact(8)) {
            let word = i64::from_ne_bytes(word.try_into().expect("eight bytes"));
            self.emit(at, Op::Constant, register, 0, 0, word)?;
        }
        Ok(Value::Text)
    }

    fn context(&mut self, at: usize, which: Context, to: u8) -> Result<(), Mistake> {
        self.emit(at, Op::Context, to, 0, 0, which as i64)
    }

    fn name(&mut self, at: usize, name: &str, to: u8) -> Result<Value, Mistake> {
        if let Some(index) = self.arguments.iter().position(|(known, _)| known == name) {
            return self.argument(at, index, to);
        }
        if let Some((_, which)) = ALWAYS.iter().find(|(known, _)| *known == name) {
            self.context(at, *which, to)?;
            return Ok(Value::Number { is_duration: false });
        }
        let is_function_return = matches!(self.probe, Probe::Function { at_return: true, .. });
        let is_return = is_function_return || matches!(self.probe, Probe::Call(_));
        match name {
            "comm" => {
                Self::room(at, to, TEXT_REGISTERS)?;
                self.emit(at, Op::CommText, to, 0, 0, 0)?;
                Ok(Value::Text)
            }
            "task" => {
                self.context(at, Context::Task, to)?;
                Ok(Value::Pointer(self.types.structure("task_struct")))
            }
            "retval" if is_return => {
                self.context(at, Context::Result, to)?;
                Ok(Value::Number { is_duration: false })
            }
            "latency" if is_return => {
                self.needs_call = true;
                self.context(at, Context::Latency, to)?;
                Ok(Value::Number { is_duration: true })
            }
            "retval" | "latency" => {
                let message = format!("{name} is known at the return only: uretprobe:FILE:FUNCTION, or syscall:NAME");
                Err(Mistake::new(at, message))
            }
            "call" if matches!(self.probe, Probe::Call(_)) => {
                self.context(at, Context::Call, to)?;
                Ok(Value::Call)
            }
            _ => match name.strip_prefix("arg").and_then(|digits| digits.parse::<usize>().ok()) {
                Some(index) => self.argument(at, index, to),
                None => Err(self.unknown(at, name)),
            },
        }
    }

    fn argument(&mut self, at: usize, index: usize, to: u8) -> Result<Value, Mistake> {
        let count = match self.probe {
            Probe::Point(_) | Probe::Usdt { .. } => self.arguments.len().min(ARGUMENTS),
            Probe::Function { .. } | Probe::Call(_) => CALL_ARGUMENTS,
            Probe::Profile(_) | Probe::Interval(_) | Probe::Record { .. } => 0,
        };
        if index >= count {
            return Err(Mistake::new(at, format!("this probe has {count} arguments, counted from arg0")));
        }
        if let (Probe::Usdt { .. }, Some((_, Shape::Other(text)))) = (self.probe, self.arguments.get(index)) {
            return Err(Mistake::new(at, format!("arg{index} is at {text}, where the kernel's programs read nothing")));
        }
        self.used = self.used.max(index + 1);
        self.needs_call |= matches!(self.probe, Probe::Function { at_return: true, .. });
        self.emit(at, Op::Argument, to, 0, 0, index as i64)?;
        match self.arguments.get(index).map(|(_, shape)| shape.clone()) {
            Some(Shape::Pointer(structure)) => Ok(Value::Pointer(Some(structure))),
            Some(Shape::Address) => Ok(Value::Pointer(None)),
            Some(Shape::Number { bytes, is_signed: true }) if bytes < 8 => {
                self.cut(at, bytes * 8, true, to)?;
                Ok(Value::Number { is_duration: false })
            }
            _ => Ok(Value::Number { is_duration: false }),
        }
    }

    fn unknown(&self, at: usize, name: &str) -> Mistake {
        let mut known: Vec<&str> = self.arguments.iter().map(|(name, _)| name.as_str()).collect();
        known.extend(self.record.iter().map(|field| field.name.as_str()));
        known.extend(ALWAYS.iter().map(|(name, _)| *name));
        known.extend(["comm", "task"]);
        match self.probe {
            Probe::Function { at_return: true, .. } => known.extend(["retval", "latency", "arg0"]),
            Probe::Function { .. } => known.push("arg0"),
            Probe::Call(_) => known.extend(["retval", "latency", "call", "arg0"]),
            Probe::Point(_) | Probe::Usdt { .. } | Probe::Profile(_) | Probe::Interval(_) | Probe::Record { .. } => {}
        }
        let meant = suggestion(known.iter().copied(), name);
        Mistake::new(at, format!("there is no {name:?} here, but {}{meant}", known.join(", ")))
    }
}

#[cfg(test)]
#[path = "compiler_tests.rs"]
mod tests;
