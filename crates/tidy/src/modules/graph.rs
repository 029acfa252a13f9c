//! Cycles of a graph: its strongly connected components of more than one file (Tarjan 1972).

use std::collections::{BTreeMap, BTreeSet};

/// The groups of files that depend on each other, each sorted.
#[must_use]
pub fn cycles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<&str>> {
    let mut search = Search::new(arrows);
    for file in arrows.keys() {
        if !search.numbers.contains_key(file.as_str()) {
            search.visit(file);
        }
    }
    search.cycles.sort();
    search.cycles
}

struct Search<'a> {
    arrows: &'a BTreeMap<String, BTreeSet<String>>,
    numbers: BTreeMap<&'a str, usize>,
    lowest: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    cycles: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a> {
    fn new(arrows: &'a BTreeMap<String, BTreeSet<String>>) -> Self {
        Self { arrows, numbers: BTreeMap::new(), lowest: BTreeMap::new(), stack: Vec::new(), cycles: Vec::new() }
    }

    fn visit(&mut self, file: &'a str) {
        let number = self.numbers.len();
        self.numbers.insert(file, number);
        self.lowest.insert(file, number);
        self.stack.push(file);
        let arrows = self.arrows;
        for next in arrows.get(file).into_iter().flatten() {
            if !self.numbers.contains_key(next.as_str()) {
                self.visit(next);
                self.lower(file, self.lowest[next.as_str()]);
            } else if self.stack.contains(&next.as_str()) {
                self.lower(file, self.numbers[next.as_str()]);
            }
        }
        if self.lowest[file] == number {
            let from =
                self.stack.iter().position(|on_stack| *on_stack == file).expect("a visited file is on the stack");
            let mut cycle = self.stack.split_off(from);
            if cycle.len() > 1 {
                cycle.sort_unstable();
                self.cycles.push(cycle);
            }
        }
    }

    fn lower(&mut self, file: &'a str, number: usize) {
        let lowest = self.lowest.get_mut(file).expect("a visited file has a number");
        *lowest = number.min(*lowest);
    }
}
