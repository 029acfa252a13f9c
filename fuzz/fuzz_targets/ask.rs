//! Any text as a question to the kernel: what parses compiles or has a mistake, and a mistake has its place in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_kernel::ask::{Machine, RecordField, Shape, Types, Usdt, compile, parse, record_fields};

/// Every tracepoint has a structure, whose fields are of all forms.
struct Any;

impl Types for Any {
    fn point(&self, name: &str) -> Option<Vec<(String, Shape)>> {
        let shapes = [Shape::Pointer(0), Shape::Address, Shape::Number { bytes: 4, is_signed: true }];
        Some(shapes.into_iter().map(|shape| (name.to_owned(), shape)).collect())
    }

    fn usdt(&self, path: &str, provider: &str, name: &str) -> Result<Usdt, String> {
        Usdt::from_notes(path.as_bytes(), provider, name, Machine::X86, 0, Some)
    }

    fn record(&self, category: &str, name: &str) -> Result<Vec<RecordField>, String> {
        let numbers = format!("field:int {name};offset:8;size:4;signed:1;");
        let texts = format!("field:__rel_loc char[] {category};offset:4294967295;size:4;signed:0;");
        Ok(record_fields(&format!("{numbers}\n{texts}")))
    }

    fn points(&self) -> Vec<String> {
        Vec::new()
    }

    fn structure(&self, _: &str) -> Option<u32> {
        Some(0)
    }

    fn name(&self, structure: u32) -> String {
        structure.to_string()
    }

    fn field(&self, structure: u32, name: &str) -> Option<(u32, Shape)> {
        let shape = match name.len() % 6 {
            0 => Shape::Pointer(structure),
            1 => Shape::Letters,
            2 => Shape::Structure(structure),
            3 => Shape::Bits { first: 3, count: 7 },
            4 => Shape::Other(name.to_owned()),
            _ => return None,
        };
        Some((u32::MAX / 64, shape))
    }

    fn fields(&self, _: u32) -> Vec<String> {
        Vec::new()
    }
}

fuzz_target!(|text: &str| {
    let question = match parse(text) {
        Ok(question) => question,
        Err(mistake) => {
            assert!(text.is_char_boundary(mistake.at));
            assert!(!mistake.shown_in(text).is_empty());
            return;
        }
    };
    if let Err(mistake) = compile(&question, &Any) {
        assert!(text.is_char_boundary(mistake.at));
        assert!(!mistake.shown_in(text).is_empty());
    }
});
