use super::*;

/// A note as the assembler writes it.
fn note(owner: &[u8], kind: u32, words: [u64; 3], texts: &[u8]) -> Vec<u8> {
    let content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(texts.iter().copied()).collect();
    let mut bytes: Vec<u8> =
        [owner.len() as u32, content.len() as u32, kind].iter().flat_map(|word| word.to_le_bytes()).collect();
    for part in [owner, &content] {
        bytes.extend(part);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn two_notes() -> Vec<u8> {
    let mut bytes = note(b"stapsdt\0", 3, [0x1000, 0x2000, 0x3000], b"app\0begins\x008@%rax -4@$5\0");
    bytes.extend(note(b"other\0", 3, [1, 2, 3], b"a\0b\0c\0"));
    bytes.extend(note(b"stapsdt\0", 4, [1, 2, 3], b"a\0b\0c\0"));
    bytes.extend(note(b"stapsdt\0", 3, [0x1004, 0x2000, 0], b"app\0ends\0\0"));
    bytes
}

#[test]
fn notes_are_those_of_probes() {
    let bytes = two_notes();
    let found = notes(&bytes);
    let begins = Note {
        location: 0x1000,
        base: 0x2000,
        semaphore: 0x3000,
        provider: "app",
        name: "begins",
        arguments: "8@%rax -4@$5",
    };
    let ends = Note { location: 0x1004, semaphore: 0, name: "ends", arguments: "", ..begins.clone() };
    assert_eq!(found, [begins, ends]);
}

#[test]
fn notes_that_are_cut_off_or_changed_are_no_panic() {
    let bytes = two_notes();
    for end in 0..bytes.len() {
        assert!(notes(&bytes[..end]).len() <= 2, "{end}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(notes(&changed).len() <= 4, "{at} {bit}");
        }
    }
    assert_eq!(notes(&[0xff; 64]), []);
}

#[test]
fn places_are_where_the_program_was_moved_and_never_outside_of_its_file() {
    let bytes = two_notes();
    let find = |name, base, offset: fn(u64) -> Option<u64>| {
        crate::ask::Usdt::from_notes(&bytes, "app", name, Machine::X86, base, offset)
    };
    let sites = find("begins", 0x2100, |address| Some(address - 0x100)).unwrap().sites;
    assert_eq!((sites[0].offset, sites[0].semaphore), (0x1000, 0x3000), "0x100 up, and 0x100 down");
    let sites = find("ends", 0, Some).unwrap().sites;
    assert_eq!((sites[0].offset, sites[0].semaphore), (0x1004, 0), "no semaphore is never one at an address");
    assert!(find("ends", 0, |_| None).unwrap_err().contains("outside of the file"));
    let reason = find("end", 0, Some).unwrap_err();
    assert!(reason.contains("did you mean \"app:ends\"?") && reason.contains("app:begins"), "{reason}");
}

#[test]
fn operands_are_those_of_the_assembler() {
    let value = |register, number| Some(Operand::Value { register, number });
    let memory = |base, index, number| Some(Operand::Memory { base, index, number });
    for (text, bytes, is_signed, operand) in [
        ("8@%rax", 8, false, value(Some(10), 0)),
        ("-4@%edi", 4, true, value(Some(14), 0)),
        ("2@%r15w", 2, false, value(Some(0), 0)),
        ("-1@%r8b", 1, true, value(Some(9), 0)),
        ("1@%sil", 1, false, value(Some(13), 0)),
        ("8@$-5", 8, false, value(None, -5)),
        ("8@$0x10", 8, false, value(None, 16)),
        ("8@$18446744073709551615", 8, false, value(None, -1)),
        ("-4@-20(%rbp)", 4, true, memory(Some(4), None, -20)),
        ("8@(%rsp)", 8, false, memory(Some(19), None, 0)),
        ("4@8(%r12,%rcx,4)", 4, false, memory(Some(3), Some((11, 2)), 8)),
        ("8@(%rax,%rdx)", 8, false, memory(Some(10), Some((12, 0)), 0)),
        ("8@64(,%rdx,8)", 8, false, memory(None, Some((12, 3)), 64)),
    ] {
        let expected = Argument { bytes, is_signed, operand: operand.unwrap() };
        assert_eq!(arguments(text, Machine::X86), [expected], "{text}");
    }
    let arm = |text| arguments(text, Machine::Arm);
    let argument =
        |bytes, is_signed, operand: Option<Operand>| Argument { bytes, is_signed, operand: operand.unwrap() };
    assert_eq!(
        arm("8@x0 -4@w19 4@[sp, 12] 8@[x30] -4@-7 8@[x1, #-16]"),
        [
            argument(8, false, value(Some(0), 0)),
            argument(4, true, value(Some(19), 0)),
            argument(4, false, memory(Some(31), None, 12)),
            argument(8, false, memory(Some(30), None, 0)),
            argument(4, true, value(None, -7)),
            argument(8, false, memory(Some(1), None, -16)),
        ]
    );
}

#[test]
fn what_cannot_be_read_is_known_by_its_text() {
    for text in [
        "8f@%xmm0",
        "3@%rax",
        "8@",
        "@",
        "x",
        "8@%zax",
        "8@%r7",
        "8@%r16",
        "4@global(%rip",
        "4@global(%rip)",
        "8@()",
        "8@(,,)",
        "8@(%rax,%rcx,3)",
        "8@(%rax,%rcx,8,1)",
        "8@%fs:0(%rax)",
        "8@$--1",
        "-200@%rax",
        "8@$0xfffffffffffffffff",
    ] {
        let found = arguments(text, Machine::X86);
        assert_eq!(found[0].operand, Operand::Unknown(text.to_owned()));
    }
    for text in ["8@x31", "8@[x0, x1]", "8@[x0, 1, 2]", "8@[x0", "8@q0"] {
        assert_eq!(arguments(text, Machine::Arm)[0].operand, Operand::Unknown(text.to_owned()));
    }
    assert_eq!(arguments(" \t ", Machine::X86), []);
}

#[test]
fn an_argument_is_constant_data_of_16_bytes() {
    let [argument] = &arguments("-4@-20(%rbp,%rcx,4)", Machine::X86)[..] else { panic!("one") };
    let mut expected = vec![1, 4, 11, 2, 4, 1, 0, 0];
    expected.extend((-20_i64).to_ne_bytes());
    assert_eq!(argument.constant(), expected[..]);
}
