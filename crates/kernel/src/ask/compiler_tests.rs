use super::*;
use crate::ask::parser::parse;
use crate::ask::usdt::{Machine, arguments};

/// One tracepoint and two structures.
struct Fixed;

impl Types for Fixed {
    fn usdt(&self, path: &str, provider: &str, name: &str) -> Result<Usdt, String> {
        if (path, provider, name) != ("/bin/app", "app", "begins") {
            return Err(format!("{path} has no USDT probe"));
        }
        let mut usdt = Usdt::default();
        for (at, text) in
            ["8@%rax -4@$5 8f@%xmm0", "8@%rbx -4@%ecx 8@%rax 1@%dl", "8@%rax -4@$5 8f@%xmm0"].iter().enumerate()
        {
            usdt.add(at as u64, 0, arguments(text, Machine::X86)).unwrap();
        }
        Ok(usdt)
    }

    fn point(&self, name: &str) -> Option<Vec<(String, Shape)>> {
        let argument = |name: &str, shape| (name.to_owned(), shape);
        (name == "switch").then(|| {
            vec![
                argument("preempt", Shape::Number { bytes: 4, is_signed: true }),
                argument("prev", Shape::Pointer(1)),
                argument("name", Shape::Address),
            ]
        })
    }

    fn record(&self, category: &str, name: &str) -> Result<Vec<RecordField>, String> {
        match (category, name) {
            ("sched", "exec") => Ok(crate::ask::record_fields(
                "\tfield:char comm_then[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                 \tfield:__data_loc char[] filename;\toffset:24;\tsize:4;\tsigned:0;\n\
                 \tfield:unsigned long args[6];\toffset:32;\tsize:48;\tsigned:0;\n\
                 \tfield:pid_t old_pid;\toffset:28;\tsize:4;\tsigned:1;\n",
            )),
            _ => Err(format!("there is no tracepoint {category}:{name}")),
        }
    }

    fn points(&self) -> Vec<String> {
        vec!["switch".to_owned()]
    }

    fn structure(&self, name: &str) -> Option<u32> {
        (name == "task_struct").then_some(1)
    }

    fn name(&self, structure: u32) -> String {
        format!("struct {}", if structure == 1 { "task_struct" } else { "mm" })
    }

    fn field(&self, structure: u32, name: &str) -> Option<(u32, Shape)> {
        match (structure, name) {
            (1, "pid") => Some((8, Shape::Number { bytes: 4, is_signed: true })),
            (1, "comm") => Some((16, Shape::Letters)),
            (1, "mm") => Some((32, Shape::Pointer(2))),
            (1, "inner") => Some((40, Shape::Structure(2))),
            (1, "bits") => Some((56, Shape::Bits { first: 3, count: 2 })),
            (1, "float") => Some((64, Shape::Other("Float double".to_owned()))),
            (2, "size") => Some((4, Shape::Number { bytes: 8, is_signed: false })),
            _ => None,
        }
    }

    fn fields(&self, structure: u32) -> Vec<String> {
        let names: &[&str] = if structure == 1 { &["pid", "comm", "mm", "inner", "bits"] } else { &["size"] };
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}

fn compiled(text: &str) -> Result<Compiled, Mistake> {
    compile(&parse(text)?, &Fixed)
}

#[test]
fn fields_are_read_at_their_places() {
    let loads = |text: &str| -> Vec<(u32, i64)> {
        let code = compiled(text).unwrap().code;
        code.iter().filter(|step| step.op == Op::Load).map(|step| (step.size, step.number)).collect()
    };
    assert_eq!(loads("tp_btf:switch count by prev->pid"), [(4, 8)]);
    assert_eq!(loads("tp_btf:switch count by prev->mm->size"), [(8, 32), (8, 4)]);
    assert_eq!(loads("tp_btf:switch count by prev->inner.size"), [(8, 44)]);
    assert_eq!(loads("tp_btf:switch count by task.bits"), [(8, 56)]);
    let question = compiled("uretprobe:a:b hist latency by arg1, comm").unwrap();
    assert!(question.needs_call && question.is_duration);
    assert_eq!(question.keys[1], ("comm".to_owned(), KeyKind::Text));
    assert!(!compiled("uretprobe:a:b hist retval").unwrap().needs_call);
    assert!(!compiled("syscall:read hist latency / 1000").unwrap().is_duration);
    assert!(compiled("syscall:read hist latency - 5us").unwrap().is_duration);
    assert_eq!(compiled("syscall:getppid count").unwrap().call, Some(110));
}

#[test]
fn fields_of_a_record_are_read_behind_its_beginning() {
    let steps = |text: &str| -> Vec<(Op, u32, i64)> {
        let code = compiled(text).unwrap().code;
        code.iter().map(|step| (step.op, step.size, step.number)).collect()
    };
    let key = (Op::Key, 0, 0);
    assert_eq!(
        steps("tracepoint:sched:exec count by old_pid"),
        [(Op::Argument, 0, 0), (Op::Load, 4, 28), key],
        "it has no arguments of its own"
    );
    assert_eq!(steps("tracepoint:sched:exec count by comm_then")[1], (Op::Text, 0, 8));
    // The lower half of a word says where its text is.
    let far = steps("tracepoint:sched:exec count by filename");
    assert_eq!((far[1], far[2]), ((Op::Load, 4, 24), (Op::Constant, 0, 0xffff)));
    assert!(far.iter().any(|(op, ..)| *op == Op::Add) && far.iter().any(|(op, ..)| *op == Op::Text));
    for (text, at, said) in [
        ("tracepoint:sched:exec count by old_pif", 31, "did you mean \"old_pid\"?"),
        ("tracepoint:sched:exec count by args", 31, "an array is no number"),
        ("tracepoint:sched:exec count by arg0", 31, "0 arguments"),
        ("tracepoint:sched:exek count", 11, "no tracepoint sched:exek"),
        ("interval:1s hist latency", 17, "at the return only"),
    ] {
        let mistake = compiled(text).unwrap_err();
        assert!(mistake.at == at && mistake.message.contains(said), "{text}: {mistake:?}");
    }
}

#[test]
fn places_of_a_probe_share_their_layouts_and_only_what_is_used_is_read() {
    let question = compiled("usdt:/bin/app:app:begins count by arg1").unwrap();
    let layouts: Vec<usize> = question.usdt.sites.iter().map(|site| site.layout).collect();
    assert_eq!((layouts, question.usdt.layouts.len(), question.arguments), (vec![0, 1, 0], 2, 2));
    let places = question.places();
    assert_eq!(places.len(), LAYOUTS * ARGUMENTS * PLACE_BYTES);
    // rbx is the first argument of the second layout.
    assert_eq!(places[ARGUMENTS * PLACE_BYTES..][..6], [0, 5, 255, 0, 8, 0]);
    assert_eq!(compiled("usdt:/bin/app:app:begins count").unwrap().arguments, 0);
}

#[test]
fn more_layouts_and_places_than_there_is_room_for_are_refused() {
    let mut usdt = Usdt::default();
    let layout = |number: usize| arguments(&format!("8@${number}"), Machine::X86);
    for at in 0..LAYOUTS {
        usdt.add(at as u64, 0, layout(at)).unwrap();
    }
    assert!(usdt.clone().add(0, 0, layout(LAYOUTS)).unwrap_err().contains("64 ways"));
    for at in LAYOUTS..1024 {
        usdt.add(at as u64, 0, layout(0)).unwrap();
    }
    assert!(usdt.add(0, 0, layout(0)).unwrap_err().contains("1024 places"));
}

#[test]
fn values_that_cannot_be_are_mistakes() {
    let sums = format!("profile:1 hist {}1", "1 + (".repeat(16)) + &")".repeat(16);
    let many = format!("profile:1 hist 1{}", " + 1".repeat(70));
    for (text, said) in [
        ("tp_btf:swich count", "did you mean \"switch\"?"),
        ("syscall:raed count", "did you mean \"read\"?"),
        ("tp_btf:switch count by prv", "did you mean \"prev\"?"),
        ("tp_btf:switch count by prev->pidd", "struct task_struct has no field \"pidd\"; did you mean \"pid\"?"),
        ("tp_btf:switch hist prev->inner", "its fields are"),
        ("tp_btf:switch hist prev->float", "no number and no text"),
        ("tp_btf:switch hist name->x", "no fields"),
        ("tp_btf:switch hist comm", "a text is a key"),
        ("tp_btf:switch /comm/ count", "compare the text"),
        ("tp_btf:switch /comm == 1/ count", "to compare with a text"),
        ("tp_btf:switch /1 == comm/ count", "this is a text"),
        ("tp_btf:switch /comm < \"a\"/ count", "== and != only"),
        ("tp_btf:switch count by retval", "known at the return"),
        ("tp_btf:switch count by arg3", "3 arguments"),
        ("uprobe:a:b count by latency", "known at the return"),
        ("uprobe:a:b count by arg6", "6 arguments"),
        ("uprobe:a:b count by strr(arg0)", "did you mean \"str\"?"),
        ("profile:1 /comm == \"a name that is longer than the kernel has\"/ count", "first 31 bytes"),
        ("usdt:/bin/app:app:ends count", "no USDT probe"),
        ("usdt:/bin/app:app:begins count by arg3", "3 arguments"),
        ("usdt:/bin/app:app:begins count by arg2", "arg2 is at 8f@%xmm0"),
        ("usdt:/bin/app:app:begins count by retval", "known at the return"),
        ("usdt:/bin/app:app:begins count by argO", "did you mean \"arg0\"?"),
        (&sums, "nest less"),
        (&many, "more than 128 steps"),
    ] {
        let mistake = compiled(text).unwrap_err();
        assert!(mistake.message.contains(said), "{text}: {mistake:?}");
    }
}

/// What the programs make of numbers, in Rust.
fn run(code: &[Instruction]) -> Option<i64> {
    let (mut registers, mut bad) = ([0_i64; REGISTERS as usize], [false; REGISTERS as usize]);
    for step in code {
        let (a, b) = (registers[step.a as usize], registers[step.b as usize]);
        let (bad_a, bad_b) = (bad[step.a as usize], bad[step.b as usize]);
        let mut is_bad = bad_a || bad_b;
        let value = match step.op {
            Op::Constant => {
                is_bad = false;
                step.number
            }
            Op::Add => a.wrapping_add(b),
            Op::Subtract => a.wrapping_sub(b),
            Op::Multiply => a.wrapping_mul(b),
            Op::Divide | Op::Remainder if b == 0 => {
                is_bad = true;
                0
            }
            Op::Divide => a.wrapping_div(b),
            Op::Remainder => a.wrapping_rem(b),
            Op::BitAnd => a & b,
            Op::BitOr => a | b,
            Op::BitXor => a ^ b,
            Op::ShiftLeft => a.wrapping_shl(b as u32),
            Op::ShiftRight => a.wrapping_shr(b as u32),
            Op::Equal => i64::from(a == b),
            Op::Less => i64::from(a < b),
            Op::And => {
                is_bad &= (bad_a || a != 0) && (bad_b || b != 0);
                i64::from(a != 0 && b != 0)
            }
            Op::Or => {
                is_bad &= (bad_a || a == 0) && (bad_b || b == 0);
                i64::from(a != 0 || b != 0)
            }
            Op::Value => return (!bad_a).then_some(a),
            op => panic!("{op:?} in a question of numbers"),
        };
        (registers[step.to as usize], bad[step.to as usize]) = (value, is_bad);
    }
    panic!("there is no value")
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// An expression of numbers in brackets, and its value where it has one.
    fn expression(&mut self, depth: u32) -> (String, Option<i64>) {
        if depth == 0 || self.below(5) == 0 {
            let number = self.below(20) as i64;
            return (number.to_string(), Some(number));
        }
        let (left, a) = self.expression(depth - 1);
        if self.below(6) == 0 {
            return [
                (format!("-{left}"), a.map(i64::wrapping_neg)),
                (format!("~{left}"), a.map(|a| !a)),
                (format!("!{left}"), a.map(|a| i64::from(a == 0))),
            ][self.below(3) as usize]
                .clone();
        }
        let (right, b) = self.expression(depth - 1);
        let sign = ["+", "-", "*", "/", "%", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||"]
            [self.below(16) as usize];
        let both = |of: fn(i64, i64) -> i64| a.zip(b).map(|(a, b)| of(a, b));
        let value = match sign {
            "+" => both(i64::wrapping_add),
            "-" => both(i64::wrapping_sub),
            "*" => both(i64::wrapping_mul),
            "/" => a.zip(b).filter(|(_, b)| *b != 0).map(|(a, b)| a.wrapping_div(b)),
            "%" => a.zip(b).filter(|(_, b)| *b != 0).map(|(a, b)| a.wrapping_rem(b)),
            "&" => both(|a, b| a & b),
            "|" => both(|a, b| a | b),
            "^" => both(|a, b| a ^ b),
            "==" => both(|a, b| i64::from(a == b)),
            "!=" => both(|a, b| i64::from(a != b)),
            "<" => both(|a, b| i64::from(a < b)),
            "<=" => both(|a, b| i64::from(a <= b)),
            ">" => both(|a, b| i64::from(a > b)),
            ">=" => both(|a, b| i64::from(a >= b)),
            "&&" if a == Some(0) || b == Some(0) => Some(0),
            "&&" => both(|_, _| 1),
            _ if a.is_some_and(|a| a != 0) || b.is_some_and(|b| b != 0) => Some(1),
            _ => both(|_, _| 0),
        };
        (format!("({left} {sign} {right})"), value)
    }
}

#[test]
fn instructions_give_the_value_of_the_expression() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut compared = 0;
    for _ in 0..4_000 {
        let (text, value) = random.expression(5);
        // Some are longer than a question may be.
        let Ok(question) = compiled(&format!("profile:1 hist {text}")) else { continue };
        assert_eq!(run(&question.code), value, "{text}");
        compared += 1;
    }
    assert!(compared > 3_000, "{compared}");
}

/// What questions are made of; the first six are probes.
const PIECES: [&str; 40] = [
    "tp_btf:switch ",
    "uprobe:a:b ",
    "uretprobe:a:b ",
    "syscall:* ",
    "syscall:read ",
    "profile:9 ",
    "/",
    "count ",
    "hist ",
    "sum ",
    "by ",
    "comm",
    "pid",
    "prev",
    "->",
    ".",
    "mm",
    "inner",
    "bits",
    "size",
    "arg0",
    "retval",
    "latency",
    "call",
    "str(",
    "i32(",
    ")",
    "(",
    ",",
    "1",
    "10ms",
    "0xff",
    "\"a\"",
    "==",
    "&&",
    "-",
    "!",
    " ",
    "é",
    "\n",
];

/// Pieces of questions in any order, and cut anywhere: a question or a mistake within it.
#[test]
fn any_text_is_a_question_or_a_mistake() {
    let mut random = Random(88_172_645_463_325_252);
    let mut good = 0;
    for _ in 0..15_000 {
        let mut text = PIECES[random.below(6) as usize].to_owned();
        for _ in 0..random.below(12) {
            text += PIECES[random.below(PIECES.len() as u64) as usize];
        }
        if random.below(8) == 0 {
            let cut = text.floor_char_boundary(random.below(text.len() as u64 + 1) as usize);
            text.truncate(cut);
        }
        match compiled(&text) {
            Ok(question) => {
                assert!(question.code.len() <= INSTRUCTIONS && question.keys.len() <= 3);
                assert!(
                    question.code.iter().all(|step| step.to < REGISTERS && step.a < REGISTERS && step.b < REGISTERS)
                );
                good += 1;
            }
            Err(mistake) => {
                assert!(text.is_char_boundary(mistake.at), "{text:?}: {mistake:?}");
                assert!(!mistake.shown_in(&text).is_empty());
            }
        }
    }
    assert!(good > 20, "{good}");
}

#[test]
fn instructions_have_the_form_of_the_programs() {
    let question = compiled("tp_btf:switch count by prev->pid").unwrap();
    let bytes = question.constants();
    assert_eq!(bytes.len(), 24 + 128 * 16);
    assert_eq!((bytes[0], bytes[4], &bytes[16..24]), (3, 3, &[0xff; 8][..]));
    // The second: LOAD, 4 bytes with a sign, from 8 bytes behind.
    assert_eq!(&bytes[40..48], [3, 0, 0, 2, 4, 0, 0, 0]);
    assert_eq!(bytes[48], 8);
}
