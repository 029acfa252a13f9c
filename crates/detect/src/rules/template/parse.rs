//! Reads a template: pieces to a tree.

use std::sync::Arc;

use super::functions;
use super::limits::DEPTH_MAX;
use super::token::{Piece, Token, TokenKind, pieces, tokens};
use super::tree::{BranchKind, Definitions, Node, Operand, Pipe};
use super::value::Value;

/// A tree while it is built.
struct Parser<'t> {
    pieces: std::vec::IntoIter<Piece<'t>>,
    definitions: Definitions,
    /// Variables that are declared here.
    variables: Vec<String>,
    depth: usize,
    /// How many ranges are open.
    ranges: usize,
}

/// What ended a list of nodes.
enum End {
    Text,
    Closed,
    /// `else`, with what follows the word, and its line.
    Else(Vec<Token>, usize),
}

/// The nodes of a text, and the bodies that it defines. `variables` are declared already.
pub(crate) fn parse(text: &str, variables: &[&str]) -> Result<(Vec<Node>, Definitions), String> {
    let mut parser = Parser {
        pieces: pieces(text)?.into_iter(),
        definitions: Definitions::new(),
        variables: std::iter::once("$").chain(variables.iter().copied()).map(str::to_owned).collect(),
        depth: 0,
        ranges: 0,
    };
    let (nodes, end) = parser.list()?;
    match end {
        End::Text => Ok((nodes, parser.definitions)),
        End::Closed => Err("unexpected {{end}}".to_owned()),
        End::Else(_, line) => Err(format!("{line}: unexpected {{{{else}}}}")),
    }
}

impl Parser<'_> {
    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(format!("nests deeper than {DEPTH_MAX}")) } else { Ok(()) }
    }

    fn list(&mut self) -> Result<(Vec<Node>, End), String> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (action, line) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text.to_owned()));
                    continue;
                }
                Piece::Action(action, line) => (action, line),
            };
            let tokens = tokens(action).map_err(|error| format!("{line}: {error}"))?;
            let word = match tokens.first().map(|token| &token.kind) {
                Some(TokenKind::Word(word)) => word.clone(),
                _ => String::new(),
            };
            match word.as_str() {
                "end" => return Ok((nodes, End::Closed)),
                "else" => return Ok((nodes, End::Else(tokens[1..].to_vec(), line))),
                _ => nodes.extend(self.action(&word, &tokens, line).map_err(|error| at_line(line, error))?),
            }
        }
        Ok((nodes, End::Text))
    }

    fn action(&mut self, word: &str, tokens: &[Token], line: usize) -> Result<Option<Node>, String> {
        Ok(match word {
            "if" => Some(self.branch(BranchKind::If, &tokens[1..], line)?),
            "with" => Some(self.branch(BranchKind::With, &tokens[1..], line)?),
            "range" => Some(self.branch(BranchKind::Range, &tokens[1..], line)?),
            "define" => {
                let (name, rest) = named(&tokens[1..], "define clause")?;
                if !rest.is_empty() {
                    return Err("unexpected token in define clause".to_owned());
                }
                self.define(name)?;
                None
            }
            "block" => {
                let (name, rest) = named(&tokens[1..], "block clause")?;
                let pipe = self.pipe(rest, line)?;
                self.define(name.clone())?;
                Some(Node::Call { name, pipe: Some(pipe) })
            }
            "template" => {
                let (name, rest) = named(&tokens[1..], "template clause")?;
                let pipe = if rest.is_empty() { None } else { Some(self.pipe(rest, line)?) };
                Some(Node::Call { name, pipe })
            }
            "break" | "continue" if tokens.len() == 1 && self.ranges > 0 => {
                Some(if word == "break" { Node::Break } else { Node::Continue })
            }
            "break" | "continue" if tokens.len() == 1 => return Err(format!("{{{{{word}}}}} outside {{{{range}}}}")),
            _ => Some(Node::Action(self.pipe(tokens, line)?)),
        })
    }

    /// Reads a body up to its `end`, with its own variables.
    fn define(&mut self, name: String) -> Result<(), String> {
        self.enter()?;
        let outer = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let ranges = std::mem::take(&mut self.ranges);
        let (body, end) = self.list()?;
        if !matches!(end, End::Closed) {
            return Err(format!("unexpected end of the definition of {name:?}"));
        }
        (self.variables, self.ranges) = (outer, ranges);
        self.depth -= 1;
        self.definitions.insert(name, Arc::new(body));
        Ok(())
    }

    fn branch(&mut self, kind: BranchKind, tokens: &[Token], line: usize) -> Result<Node, String> {
        self.enter()?;
        let declared = self.variables.len();
        let pipe = self.pipe_of(tokens, line, kind == BranchKind::Range)?;
        self.ranges += usize::from(kind == BranchKind::Range);
        let (body, end) = self.list()?;
        self.ranges -= usize::from(kind == BranchKind::Range);
        let otherwise = self.otherwise(kind, end)?;
        self.variables.truncate(declared);
        self.depth -= 1;
        Ok(Node::Branch { kind, pipe, body, otherwise })
    }

    fn otherwise(&mut self, kind: BranchKind, end: End) -> Result<Vec<Node>, String> {
        let (tokens, line) = match end {
            End::Text => return Err("unexpected EOF".to_owned()),
            End::Closed => return Ok(Vec::new()),
            End::Else(tokens, line) => (tokens, line),
        };
        let word = match tokens.first().map(|token| &token.kind) {
            None => {
                return match self.list()? {
                    (nodes, End::Closed) => Ok(nodes),
                    _ => Err("expected end".to_owned()),
                };
            }
            Some(TokenKind::Word(word)) => word.as_str(),
            Some(_) => "",
        };
        match (word, kind) {
            ("if", BranchKind::If) | ("with", BranchKind::With) => Ok(vec![self.branch(kind, &tokens[1..], line)?]),
            _ => Err(format!("{line}: unexpected token behind {{{{else")),
        }
    }

    fn pipe(&mut self, tokens: &[Token], line: usize) -> Result<Pipe, String> {
        self.pipe_of(tokens, line, false)
    }

    fn pipe_of(&mut self, tokens: &[Token], line: usize, range: bool) -> Result<Pipe, String> {
        let (variables, assigns, used) = declaration(tokens, range)?;
        let mut at = used;
        let commands = self.commands(tokens, &mut at)?;
        if at < tokens.len() {
            return Err("unexpected right paren".to_owned());
        }
        for name in &variables {
            if assigns && !self.variables.contains(name) {
                return Err(format!("undefined variable {name:?}"));
            }
            if !assigns {
                self.variables.push(name.clone());
            }
        }
        Ok(Pipe { variables, assigns, commands, line })
    }

    /// Commands up to a closing parenthesis or the end.
    fn commands(&mut self, tokens: &[Token], at: &mut usize) -> Result<Vec<Vec<Operand>>, String> {
        let (mut commands, mut command) = (Vec::new(), Vec::new());
        loop {
            match tokens.get(*at).map(|token| &token.kind) {
                None | Some(TokenKind::Close) => break,
                Some(TokenKind::Pipe) => {
                    *at += 1;
                    if command.is_empty() {
                        return Err("missing value for command".to_owned());
                    }
                    commands.push(std::mem::take(&mut command));
                }
                Some(_) => {
                    if !command.is_empty() && !tokens[*at].spaced {
                        return Err("unexpected token in operand".to_owned());
                    }
                    command.push(self.operand(tokens, at)?);
                }
            }
        }
        if command.is_empty() {
            return Err("missing value for command".to_owned());
        }
        commands.push(command);
        if commands[1..].iter().any(|command| matches!(command[0], Operand::Constant(_) | Operand::Dot)) {
            return Err("non executable command in pipeline".to_owned());
        }
        Ok(commands)
    }

    fn operand(&mut self, tokens: &[Token], at: &mut usize) -> Result<Operand, String> {
        let kind = tokens[*at].kind.clone();
        *at += 1;
        Ok(match kind {
            TokenKind::Dot => Operand::Dot,
            TokenKind::Constant(value) => Operand::Constant(value),
            TokenKind::Field(name) => Operand::Field(chain(name, tokens, at)),
            TokenKind::Variable(name) => {
                if !self.variables.contains(&name) {
                    return Err(format!("undefined variable {name:?}"));
                }
                let mut fields = chain(name, tokens, at);
                let name = fields.remove(0);
                Operand::Variable(name, fields)
            }
            TokenKind::Word(word) => match word.as_str() {
                "true" => Operand::Constant(Value::Bool(true)),
                "false" => Operand::Constant(Value::Bool(false)),
                "nil" => Operand::Constant(Value::Nil),
                _ if functions::exists(&word) => Operand::Function(word),
                _ => return Err(format!("function {word:?} not defined")),
            },
            TokenKind::Open => {
                self.enter()?;
                let commands = self.commands(tokens, at)?;
                if !matches!(tokens.get(*at).map(|token| &token.kind), Some(TokenKind::Close)) {
                    return Err("unclosed left paren".to_owned());
                }
                *at += 1;
                self.depth -= 1;
                let mut fields = chain(String::new(), tokens, at);
                fields.remove(0);
                let pipe = Pipe { variables: Vec::new(), assigns: false, commands, line: 0 };
                Operand::Chain(Box::new(pipe), fields)
            }
            other => return Err(format!("unexpected {other:?} in operand")),
        })
    }
}

fn at_line(line: usize, error: String) -> String {
    if error.starts_with(|c: char| c.is_ascii_digit()) { error } else { format!("{line}: {error}") }
}

/// `first`, and the fields that follow without a blank.
fn chain(first: String, tokens: &[Token], at: &mut usize) -> Vec<String> {
    let mut out = vec![first];
    while let Some(Token { kind: TokenKind::Field(name), spaced: false }) = tokens.get(*at) {
        out.push(name.clone());
        *at += 1;
    }
    out
}

/// The name at the start of a clause.
fn named<'t>(tokens: &'t [Token], clause: &str) -> Result<(String, &'t [Token]), String> {
    match tokens.first().map(|token| &token.kind) {
        Some(TokenKind::Constant(Value::Text(name))) => Ok((name.to_string(), &tokens[1..])),
        _ => Err(format!("a {clause} needs a quoted name")),
    }
}

/// The variables before `:=` or `=`, whether it assigns, and the number of tokens.
fn declaration(tokens: &[Token], range: bool) -> Result<(Vec<String>, bool, usize), String> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(Token { kind: TokenKind::Variable(name), .. }) = tokens.get(at) {
        names.push(name.clone());
        match tokens.get(at + 1).map(|token| &token.kind) {
            Some(TokenKind::Comma) if range && names.len() == 1 => at += 2,
            Some(TokenKind::Comma) => return Err("too many declarations".to_owned()),
            Some(kind @ (TokenKind::Declare | TokenKind::Assign)) => {
                return Ok((names, *kind == TokenKind::Assign, at + 2));
            }
            _ => break,
        }
    }
    Ok((Vec::new(), false, 0))
}
