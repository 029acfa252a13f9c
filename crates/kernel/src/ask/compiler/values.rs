//! Compiles fields, functions and operators of expressions.

use ogive_text::near::suggestion;

use super::{Compiler, Place, Value};
use crate::ask::code::{FROM_USER, Instruction, Op, SIGNED, TEXT_REGISTERS};
use crate::ask::mistake::Mistake;
use crate::ask::syntax::{Binary, Expression, Probe, Unary};
use crate::ask::types::Shape;

/// Functions that cut a number to so many bits, and whether the highest is a sign.
const CASTS: [(&str, u32, bool); 6] =
    [("i8", 8, true), ("i16", 16, true), ("i32", 32, true), ("u8", 8, false), ("u16", 16, false), ("u32", 32, false)];

impl Compiler<'_> {
    pub(super) fn field(&mut self, at: usize, base: &Expression, field: &str, to: u8) -> Result<Place, Mistake> {
        let (structure, before) = match self.place(base, to)? {
            Place::Value(Value::Pointer(Some(structure))) => (structure, 0),
            Place::Memory { offset, shape: Shape::Structure(structure) } => (structure, offset),
            Place::Memory { offset, shape: shape @ Shape::Pointer(structure) } => {
                self.load(base.at, offset, &shape, to)?;
                (structure, 0)
            }
            _ => return Err(Mistake::new(base.at, "this has no fields: only structures of the kernel have")),
        };
        let Some((offset, shape)) = self.types.field(structure, field) else {
            let fields = self.types.fields(structure);
            let meant = suggestion(fields.iter().map(String::as_str), field);
            return Err(Mistake::new(at, format!("{} has no field {field:?}{meant}", self.types.name(structure))));
        };
        Ok(Place::Memory { offset: before.wrapping_add(offset), shape })
    }

    /// Reads memory of the kernel at a distance from the address in `to`.
    pub(super) fn load(&mut self, at: usize, offset: u32, shape: &Shape, to: u8) -> Result<Value, Mistake> {
        let number = i64::from(offset);
        let mut read = |size: u32, b: u8| self.push(at, Instruction { op: Op::Load, to, a: to, b, size, number });
        match shape {
            Shape::Number { bytes, is_signed } => {
                read(*bytes, if *is_signed { SIGNED } else { 0 })?;
                Ok(Value::Number { is_duration: false })
            }
            Shape::Bits { first, count } => {
                read(8, 0)?;
                Self::room(at, to, 2)?;
                self.emit(at, Op::Constant, to + 1, 0, 0, i64::from(*first))?;
                self.emit(at, Op::ShiftRight, to, to, to + 1, 0)?;
                self.mask(at, *count, to)?;
                Ok(Value::Number { is_duration: false })
            }
            Shape::Pointer(structure) => read(8, 0).map(|()| Value::Pointer(Some(*structure))),
            Shape::Address => read(8, 0).map(|()| Value::Pointer(None)),
            Shape::Letters => {
                Self::room(at, to, TEXT_REGISTERS)?;
                self.emit(at, Op::Text, to, to, 0, number)?;
                Ok(Value::Text)
            }
            Shape::FarLetters { is_relative } => {
                Self::room(at, to, TEXT_REGISTERS)?;
                self.push(at, Instruction { op: Op::Load, to: to + 1, a: to, b: 0, size: 4, number })?;
                self.mask(at, 16, to + 1)?;
                self.emit(at, Op::Add, to, to, to + 1, 0)?;
                let from = if *is_relative { number + 4 } else { 0 };
                self.emit(at, Op::Text, to, to, 0, from)?;
                Ok(Value::Text)
            }
            Shape::Structure(structure) => {
                let name = self.types.name(*structure);
                Err(Mistake::new(at, format!("{name} is no value, but its fields are: go on with `.`")))
            }
            Shape::Other(name) => Err(Mistake::new(at, format!("{name} is no number and no text"))),
        }
    }

    pub(super) fn function(&mut self, at: usize, name: &str, argument: &Expression, to: u8) -> Result<Value, Mistake> {
        if name == "str" {
            self.number(argument, to)?;
            Self::room(at, to, TEXT_REGISTERS)?;
            let is_user = match self.probe {
                Probe::Record { category, .. } => category == "syscalls",
                probe => !matches!(probe, Probe::Point(_)),
            };
            self.emit(at, Op::Text, to, to, if is_user { FROM_USER } else { 0 }, 0)?;
            return Ok(Value::Text);
        }
        let Some((_, bits, is_signed)) = CASTS.iter().find(|(known, ..)| *known == name) else {
            let known = CASTS.iter().map(|(name, ..)| *name).chain(["str"]);
            let meant = suggestion(known, name);
            return Err(Mistake::new(
                at,
                format!("there is no function {name:?}, but str, i8 to i32 and u8 to u32{meant}"),
            ));
        };
        self.number(argument, to)?;
        self.cut(at, *bits, *is_signed, to)?;
        Ok(Value::Number { is_duration: false })
    }

    /// Cuts a number to its lowest bits.
    pub(super) fn cut(&mut self, at: usize, bits: u32, is_signed: bool, to: u8) -> Result<(), Mistake> {
        if !is_signed {
            return self.mask(at, bits, to);
        }
        Self::room(at, to, 2)?;
        self.emit(at, Op::Constant, to + 1, 0, 0, i64::from(64 - bits))?;
        self.emit(at, Op::ShiftLeft, to, to, to + 1, 0)?;
        self.emit(at, Op::ShiftRight, to, to, to + 1, 0)
    }

    fn mask(&mut self, at: usize, bits: u32, to: u8) -> Result<(), Mistake> {
        Self::room(at, to, 2)?;
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        self.emit(at, Op::Constant, to + 1, 0, 0, mask.cast_signed())?;
        self.emit(at, Op::BitAnd, to, to, to + 1, 0)
    }

    pub(super) fn unary(&mut self, at: usize, operator: Unary, operand: &Expression, to: u8) -> Result<Value, Mistake> {
        let found = self.number(operand, to)?;
        Self::room(at, to, 2)?;
        let constant = if operator == Unary::Complement { -1 } else { 0 };
        self.emit(at, Op::Constant, to + 1, 0, 0, constant)?;
        match operator {
            Unary::Not => self.emit(at, Op::Equal, to, to, to + 1, 0)?,
            Unary::Negative => self.emit(at, Op::Subtract, to, to + 1, to, 0)?,
            Unary::Complement => self.emit(at, Op::BitXor, to, to, to + 1, 0)?,
        }
        let is_duration = operator == Unary::Negative && found == Value::Number { is_duration: true };
        Ok(Value::Number { is_duration })
    }

    pub(super) fn binary(
        &mut self,
        at: usize,
        operator: Binary,
        left: &Expression,
        right: &Expression,
        to: u8,
    ) -> Result<Value, Mistake> {
        let first = self.value(left, to)?;
        let next = to + if first == Value::Text { TEXT_REGISTERS } else { 1 };
        let second = self.value(right, next)?;
        let op = match (operator, first == Value::Text, second == Value::Text) {
            (Binary::Equal | Binary::NotEqual, true, true) => Op::SameText,
            (_, false, false) => op_of(operator),
            (_, true, true) => return Err(Mistake::new(at, "texts are compared with == and != only")),
            (_, true, false) => return Err(Mistake::new(right.at, "a text should be here, to compare with a text")),
            (_, false, true) => return Err(Mistake::new(right.at, "a number should be here, and this is a text")),
        };
        // a > b is b < a, and a <= b is not b < a.
        let is_swapped = matches!(operator, Binary::Greater | Binary::LessOrEqual);
        let (a, b) = if is_swapped { (next, to) } else { (to, next) };
        self.emit(at, op, to, a, b, 0)?;
        if matches!(operator, Binary::NotEqual | Binary::LessOrEqual | Binary::GreaterOrEqual) {
            Self::room(at, to, 2)?;
            self.emit(at, Op::Constant, to + 1, 0, 0, 0)?;
            self.emit(at, Op::Equal, to, to, to + 1, 0)?;
        }
        let both = first == Value::Number { is_duration: true } && second == first;
        Ok(Value::Number { is_duration: both && matches!(operator, Binary::Add | Binary::Subtract) })
    }
}

fn op_of(operator: Binary) -> Op {
    match operator {
        Binary::Or => Op::Or,
        Binary::And => Op::And,
        Binary::BitOr => Op::BitOr,
        Binary::BitXor => Op::BitXor,
        Binary::BitAnd => Op::BitAnd,
        Binary::Equal | Binary::NotEqual => Op::Equal,
        Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => Op::Less,
        Binary::ShiftLeft => Op::ShiftLeft,
        Binary::ShiftRight => Op::ShiftRight,
        Binary::Add => Op::Add,
        Binary::Subtract => Op::Subtract,
        Binary::Multiply => Op::Multiply,
        Binary::Divide => Op::Divide,
        Binary::Remainder => Op::Remainder,
    }
}
