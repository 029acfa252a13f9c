//! A walk through one column of a table.
//!
//! Invariants: each row's OID is above the one before, so a walk ends whatever the agent answers.

use async_snmp::{Oid, Value, VarBind};

use crate::run::{Failure, Reason};

/// 10,000 values of a run: 500 interfaces with 20 columns.
pub(super) const VALUES_MAX: usize = 10_000;

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// What follows the column in the OID.
    pub(super) index: Vec<u32>,
    pub(super) value: Value,
}

/// A column that is being read.
pub(super) struct Walk {
    column: Oid,
    /// The last OID, from which it goes on.
    pub(super) last: Oid,
    pub(super) rows: Vec<Row>,
    pub(super) is_over: bool,
}

impl Walk {
    pub(super) fn new(column: &Oid) -> Self {
        Self { column: column.clone(), last: column.clone(), rows: Vec::new(), is_over: false }
    }

    /// Takes the values of an answer; `left` is how many values the run may still have.
    pub(super) fn take(&mut self, values: Vec<VarBind>, left: &mut usize) -> Result<(), Failure> {
        assert!(!self.is_over, "the column {} is at its end", self.column);
        if values.is_empty() {
            return Err(Failure::new(Reason::Protocol, format!("the agent's answer behind {} is empty", self.last)));
        }
        for VarBind { oid, value } in values {
            // endOfMibView, or the next column.
            if value.is_exception() || !oid.starts_with(&self.column) {
                self.is_over = true;
                return Ok(());
            }
            if oid <= self.last {
                let last = &self.last;
                let sentence =
                    format!("the agent's OIDs do not increase: {oid} came behind {last}, so a walk would not end");
                return Err(Failure::new(Reason::Protocol, sentence));
            }
            let too_many = || Failure::new(Reason::Limit, format!("the agent has more than {VALUES_MAX} values"));
            *left = left.checked_sub(1).ok_or_else(too_many)?;
            self.rows.push(Row { index: oid.arcs()[self.column.len()..].to_vec(), value });
            self.last = oid;
        }
        Ok(())
    }
}

/// An index as it is written.
pub(super) fn dotted(index: &[u32]) -> String {
    index.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(arcs: &[u32], value: Value) -> VarBind {
        VarBind::new(Oid::from_slice(arcs), value)
    }

    fn numbers(all: &[&[u32]]) -> Vec<VarBind> {
        all.iter().map(|arcs| bind(arcs, Value::Integer(1))).collect()
    }

    #[test]
    fn a_walk_ends_with_its_column() {
        let mut left = VALUES_MAX;
        let mut walk = Walk::new(&Oid::from_slice(&[1, 3, 6]));
        walk.take(numbers(&[&[1, 3, 6, 1], &[1, 3, 6, 2, 7]]), &mut left).unwrap();
        assert_eq!((walk.is_over, left, walk.last.to_string().as_str()), (false, VALUES_MAX - 2, "1.3.6.2.7"));
        walk.take(numbers(&[&[1, 3, 6, 3], &[1, 3, 7, 1], &[1, 3, 6, 4]]), &mut left).unwrap();
        assert!(walk.is_over);
        let indexes: Vec<String> = walk.rows.iter().map(|row| dotted(&row.index)).collect();
        assert_eq!(indexes, ["1", "2.7", "3"]);
        let mut walk = Walk::new(&Oid::from_slice(&[1, 3, 6]));
        walk.take(vec![bind(&[1, 3, 6], Value::EndOfMibView)], &mut left).unwrap();
        assert!(walk.is_over && walk.rows.is_empty());
    }

    #[test]
    fn an_agent_that_goes_in_circles_is_noticed() {
        for second in [[1, 3, 6, 2], [1, 3, 6, 1]] {
            let mut walk = Walk::new(&Oid::from_slice(&[1, 3, 6]));
            walk.take(numbers(&[&[1, 3, 6, 2]]), &mut { VALUES_MAX }).unwrap();
            let failure = walk.take(numbers(&[&second]), &mut { VALUES_MAX }).unwrap_err();
            assert_eq!(failure.reason, Reason::Protocol);
            assert!(failure.sentence.contains("do not increase"), "{failure}");
        }
        let mut walk = Walk::new(&Oid::from_slice(&[1, 3, 6]));
        assert_eq!(walk.take(numbers(&[&[1, 3, 6]]), &mut 1).unwrap_err().reason, Reason::Protocol);
        assert_eq!(walk.take(Vec::new(), &mut 1).unwrap_err().reason, Reason::Protocol);
    }

    #[test]
    fn a_run_has_a_limit_of_values() {
        let mut walk = Walk::new(&Oid::from_slice(&[1, 3, 6]));
        let mut left = 2;
        walk.take(numbers(&[&[1, 3, 6, 1], &[1, 3, 6, 2]]), &mut left).unwrap();
        let failure = walk.take(numbers(&[&[1, 3, 6, 3]]), &mut left).unwrap_err();
        assert_eq!((failure.reason, left), (Reason::Limit, 0));
    }
}
