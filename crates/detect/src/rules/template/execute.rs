//! Expands a template.

use std::sync::Arc;

use super::functions;
use super::limits::{DEPTH_MAX, OUTPUT_BYTES_MAX, STEPS_MAX};
use super::methods;
use super::parse::parse;
use super::site::Site;
use super::tree::{BranchKind, Definitions, Node, Operand, Pipe};
use super::value::Value;

/// A template that was read.
#[derive(Clone, Debug)]
pub struct Template {
    name: String,
    nodes: Arc<Vec<Node>>,
    definitions: Definitions,
    variables: Vec<String>,
}

/// Why a template is refused or has no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Reject: the text is no template.
    #[error("error parsing template {name}: template: {name}:{message}")]
    Parse {
        /// Name of the template.
        name: String,
        /// Line and what is wrong.
        message: String,
    },
    /// The template cannot be expanded over this data.
    #[error("error executing template {name}: template: {name}:{message}")]
    Execute {
        /// Name of the template.
        name: String,
        /// Line and what is wrong.
        message: String,
    },
}

impl Template {
    /// Reads a template. `variables` (`"$labels"`) are there when it is expanded.
    ///
    /// # Errors
    /// [`TemplateError::Parse`].
    pub fn parse(name: &str, text: &str, variables: &[&str]) -> Result<Self, TemplateError> {
        let failed = |message| TemplateError::Parse { name: name.to_owned(), message };
        let (nodes, definitions) = parse(text, variables).map_err(failed)?;
        let variables = variables.iter().map(|name| (*name).to_owned()).collect();
        Ok(Self { name: name.to_owned(), nodes: Arc::new(nodes), definitions, variables })
    }

    /// The text over `data`, with `values` for the variables.
    ///
    /// # Errors
    /// [`TemplateError::Execute`].
    pub fn expand(&self, data: &Value, values: &[Value], site: &Site<'_>) -> Result<String, TemplateError> {
        assert_eq!(values.len(), self.variables.len(), "one value a variable");
        // Most texts of rules have no action.
        if let [Node::Text(text)] = &self.nodes[..] {
            return Ok(text.clone());
        }
        let mut variables = vec![("$".to_owned(), data.clone())];
        variables.extend(self.variables.iter().cloned().zip(values.iter().cloned()));
        let mut run =
            Run { definitions: &self.definitions, site, variables, out: String::new(), steps: 0, depth: 0, line: 1 };
        match run.nodes(&self.nodes, data) {
            Ok(_) => Ok(run.out),
            Err(message) => {
                Err(TemplateError::Execute { name: self.name.clone(), message: format!("{}: {message}", run.line) })
            }
        }
    }
}

/// One expansion.
struct Run<'a> {
    definitions: &'a Definitions,
    site: &'a Site<'a>,
    variables: Vec<(String, Value)>,
    out: String,
    steps: usize,
    depth: usize,
    line: usize,
}

/// How a list of nodes ended.
#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl Run<'_> {
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(format!("takes more than {STEPS_MAX} steps")) } else { Ok(()) }
    }

    fn print(&mut self, text: &str) -> Result<(), String> {
        if self.out.len() + text.len() > OUTPUT_BYTES_MAX {
            return Err(format!("the text is longer than {OUTPUT_BYTES_MAX} bytes"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, String> {
        for node in nodes {
            self.step()?;
            match node {
                Node::Text(text) => self.print(text)?,
                Node::Action(pipe) => {
                    let value = self.pipe(pipe, dot)?;
                    if pipe.variables.is_empty() {
                        self.print(&value.print())?;
                    } else {
                        self.bind(pipe, &[value]);
                    }
                }
                Node::Branch { kind, pipe, body, otherwise } => {
                    let declared = self.variables.len();
                    let flow = self.branch(*kind, pipe, body, otherwise, dot)?;
                    self.variables.truncate(declared);
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
                Node::Call { name, pipe } => self.template(name, pipe.as_ref(), dot)?,
                Node::Break => return Ok(Flow::Break),
                Node::Continue => return Ok(Flow::Continue),
            }
        }
        Ok(Flow::Next)
    }

    fn template(&mut self, name: &str, pipe: Option<&Pipe>, dot: &Value) -> Result<(), String> {
        let value = pipe.map_or(Ok(Value::Nil), |pipe| self.pipe(pipe, dot))?;
        let body = self.definitions.get(name).ok_or_else(|| format!("template {name:?} not defined"))?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("exceeded maximum template depth".to_owned());
        }
        let outer = std::mem::replace(&mut self.variables, vec![("$".to_owned(), value.clone())]);
        self.nodes(&Arc::clone(body), &value)?;
        self.variables = outer;
        self.depth -= 1;
        Ok(())
    }

    fn branch(
        &mut self,
        kind: BranchKind,
        pipe: &Pipe,
        body: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<Flow, String> {
        let value = self.pipe(pipe, dot)?;
        if kind == BranchKind::Range {
            return self.range(pipe, &value, body, otherwise, dot);
        }
        self.bind(pipe, std::slice::from_ref(&value));
        match (value.is_true(), kind) {
            (true, BranchKind::With) => self.nodes(body, &value),
            (true, _) => self.nodes(body, dot),
            (false, _) => self.nodes(otherwise, dot),
        }
    }

    fn range(
        &mut self,
        pipe: &Pipe,
        value: &Value,
        body: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<Flow, String> {
        let declared = self.variables.len();
        let mut any = false;
        for pair in elements(value)? {
            let (key, element) = pair;
            any = true;
            self.step()?;
            let values = if pipe.variables.len() == 1 { vec![element.clone()] } else { vec![key, element.clone()] };
            self.bind(pipe, &values);
            let flow = self.nodes(body, &element)?;
            self.variables.truncate(declared);
            if flow == Flow::Break {
                break;
            }
        }
        if any { Ok(Flow::Next) } else { self.nodes(otherwise, dot) }
    }

    /// Gives the variables of a pipeline their values.
    fn bind(&mut self, pipe: &Pipe, values: &[Value]) {
        for (name, value) in pipe.variables.iter().zip(values) {
            if pipe.assigns {
                let place = self.variables.iter_mut().rev().find(|(variable, _)| variable == name);
                place.expect("the parser has seen its declaration").1 = value.clone();
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
    }

    fn pipe(&mut self, pipe: &Pipe, dot: &Value) -> Result<Value, String> {
        if pipe.line > 0 {
            self.line = pipe.line;
        }
        let mut last = None;
        for command in &pipe.commands {
            last = Some(self.command(command, last, dot)?);
        }
        Ok(last.expect("the parser refuses a pipeline without a command"))
    }

    fn command(&mut self, command: &[Operand], last: Option<Value>, dot: &Value) -> Result<Value, String> {
        self.step()?;
        if let Operand::Function(name) = &command[0] {
            return self.call(name, &command[1..], last, dot);
        }
        if matches!(command[0], Operand::Constant(Value::Nil)) {
            return Err("nil is not a command".to_owned());
        }
        if command.len() == 1 && last.is_none() {
            return self.operand(&command[0], dot);
        }
        // Only a method takes arguments.
        let (value, fields) = self.start(&command[0], dot)?;
        let Some((method, fields)) = fields.split_last() else {
            return Err("can't give argument to non-function".to_owned());
        };
        let value = field_chain(value, fields)?;
        let mut arguments = Vec::with_capacity(command.len());
        for operand in &command[1..] {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(last);
        methods::call(&value, method, &arguments).unwrap_or_else(|| {
            field(&value, method)?;
            Err(format!("{method} has arguments but cannot be invoked as function"))
        })
    }

    fn call(&mut self, name: &str, operands: &[Operand], last: Option<Value>, dot: &Value) -> Result<Value, String> {
        functions::check_count(name, operands.len() + usize::from(last.is_some()))?;
        if matches!(name, "and" | "or") {
            let mut value = Value::Nil;
            for operand in operands {
                value = self.operand(operand, dot)?;
                if value.is_true() == (name == "or") {
                    return Ok(value);
                }
            }
            return Ok(last.unwrap_or(value));
        }
        let mut arguments = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(last);
        functions::call(name, &arguments, self.site).map_err(|error| format!("error calling {name}: {error}"))
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        let (value, fields) = self.start(operand, dot)?;
        field_chain(value, fields)
    }

    /// What an operand begins with, and the fields of it that follow.
    fn start<'o>(&mut self, operand: &'o Operand, dot: &Value) -> Result<(Value, &'o [String]), String> {
        Ok(match operand {
            Operand::Dot => (dot.clone(), &[]),
            Operand::Constant(value) => (value.clone(), &[]),
            Operand::Field(fields) => (dot.clone(), fields),
            Operand::Variable(name, fields) => {
                let found = self.variables.iter().rev().find(|(variable, _)| variable == name);
                (found.ok_or_else(|| format!("undefined variable: {name}"))?.1.clone(), fields)
            }
            Operand::Chain(pipe, fields) => (self.pipe(pipe, dot)?, fields),
            Operand::Function(name) => (self.call(name, &[], None, dot)?, &[]),
        })
    }
}

fn field_chain(value: Value, fields: &[String]) -> Result<Value, String> {
    fields.iter().try_fold(value, |value, name| field(&value, name))
}

fn field(value: &Value, name: &str) -> Result<Value, String> {
    match value {
        Value::Texts(map) => Ok(Value::text(map.get(name).map_or("", String::as_str))),
        Value::Map(map) => Ok(map.get(name).cloned().unwrap_or(Value::Missing)),
        Value::Structure(structure) => structure
            .field(name)
            .cloned()
            .ok_or_else(|| format!("can't evaluate field {name} in type {}", structure.type_name)),
        // As elsewhere, a field of nil is missing, and not an error.
        Value::Nil | Value::Missing => Ok(Value::Missing),
        Value::Time(_) | Value::Duration(_) if let Some(found) = methods::call(value, name, &[]) => found,
        other => Err(format!("can't evaluate field {name} in type {}", other.type_name())),
    }
}

/// Keys and elements, in order.
fn elements(value: &Value) -> Result<Box<dyn Iterator<Item = (Value, Value)>>, String> {
    let key = |at: usize| Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
    Ok(match value {
        Value::List(list) => {
            let list = Arc::clone(list);
            Box::new((0..list.len()).map(move |at| (key(at), list[at].clone())))
        }
        Value::Texts(map) => {
            Box::new((**map).clone().into_iter().map(|(name, value)| (Value::text(&name), Value::text(&value))))
        }
        Value::Map(map) => Box::new((**map).clone().into_iter().map(|(name, value)| (Value::text(&name), value))),
        Value::Int(count) => Box::new((0..*count).map(|at| (Value::Int(at), Value::Int(at)))),
        Value::Missing | Value::Nil => Box::new(std::iter::empty()),
        other => return Err(format!("range can't iterate over {}", other.print())),
    })
}
