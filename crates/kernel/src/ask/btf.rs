//! Tracepoints and structures of the running kernel, from its BTF.

use libbpf_rs::btf::types::{Array, Composite, Enum, Enum64, Func, FuncProto, Int, IntEncoding, MemberAttr};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};

use super::types::{RecordField, Shape, Types, Usdt};
use crate::Error;
use crate::machine::Source;
use crate::object::refused;

/// Anonymous structures within each other, at most: the kernel has a few.
const NESTED_MAX: u32 = 16;

/// The functions that call a tracepoint's listeners have its arguments, by their names.
const CALLERS: [&str; 2] = ["__traceiter_", "__bpf_trace_"];

/// The types of the running kernel.
pub(super) struct KernelTypes<'a> {
    btf: Btf<'static>,
    files: &'a dyn Source,
}

impl<'a> KernelTypes<'a> {
    pub(super) fn open(files: &'a dyn Source) -> Result<Self, Error> {
        crate::object::be_quiet();
        let btf = Btf::from_vmlinux();
        btf.map(|btf| Self { btf, files })
            .map_err(|error| refused("reading the kernel's types (CONFIG_DEBUG_INFO_BTF)", &error))
    }

    fn composite(&self, structure: u32) -> Option<Composite<'_>> {
        self.btf.type_by_id::<BtfType<'_>>(TypeId::from(structure)).and_then(|found| Composite::try_from(found).ok())
    }

    fn shape(&self, of: BtfType<'_>) -> Shape {
        let of = of.skip_mods_and_typedefs();
        let name = || of.name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        match of.kind() {
            BtfKind::Int => Int::try_from(of).map_or_else(|_| Shape::Other(name()), |int| number_of(&int)),
            BtfKind::Enum => {
                let signed = Enum::try_from(of).is_ok_and(|of| of.is_signed());
                Shape::Number { bytes: 4, is_signed: signed }
            }
            BtfKind::Enum64 => {
                let signed = Enum64::try_from(of).is_ok_and(|of| of.is_signed());
                Shape::Number { bytes: 8, is_signed: signed }
            }
            BtfKind::Ptr => {
                let target = of.next_type().map(|target| target.skip_mods_and_typedefs());
                match target {
                    Some(target) if target.is_composite() => Shape::Pointer(target.type_id().into()),
                    _ => Shape::Address,
                }
            }
            BtfKind::Struct | BtfKind::Union => Shape::Structure(of.type_id().into()),
            BtfKind::Array => match Array::try_from(of) {
                Ok(array) if is_letter(array.contained_type()) => Shape::Letters,
                _ => Shape::Other("an array".to_owned()),
            },
            kind => Shape::Other(format!("{kind:?} {}", name()).trim_end().to_owned()),
        }
    }

    /// A field, those of anonymous members included: its first bit and form.
    fn find(&self, structure: u32, name: &str, depth: u32) -> Option<(u32, Shape)> {
        let composite = self.composite(structure)?;
        for member in composite.iter() {
            let found = self.btf.type_by_id::<BtfType<'_>>(member.ty)?.skip_mods_and_typedefs();
            let own = member.name.is_none_or(|name| name.is_empty());
            match member.attr {
                MemberAttr::BitField { size, offset } if member.name.is_some_and(|own| own == name) => {
                    // As a word that begins at a byte, and ends within the kernel's own memory.
                    let (byte, first) = (offset / 8, offset % 8);
                    return Some((byte * 8, Shape::Bits { first, count: u32::from(size) }));
                }
                MemberAttr::Normal { offset } if member.name.is_some_and(|own| own == name) => {
                    return Some((offset, self.shape(found)));
                }
                MemberAttr::Normal { offset } if own && found.is_composite() && depth < NESTED_MAX => {
                    if let Some((inner, shape)) = self.find(found.type_id().into(), name, depth + 1) {
                        return Some((offset + inner, shape));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn names(&self, structure: u32, depth: u32, names: &mut Vec<String>) {
        let Some(composite) = self.composite(structure) else { return };
        for member in composite.iter() {
            match member.name.filter(|name| !name.is_empty()) {
                Some(name) => names.push(name.to_string_lossy().into_owned()),
                None if depth < NESTED_MAX => {
                    let found =
                        self.btf.type_by_id::<BtfType<'_>>(member.ty).map(|found| found.skip_mods_and_typedefs());
                    if let Some(found) = found.filter(BtfType::is_composite) {
                        self.names(found.type_id().into(), depth + 1, names);
                    }
                }
                None => {}
            }
        }
    }
}

fn number_of(int: &Int<'_>) -> Shape {
    let bytes = u32::from(int.bits).div_ceil(8);
    match bytes {
        1 | 2 | 4 | 8 => Shape::Number { bytes, is_signed: matches!(int.encoding, IntEncoding::Signed) },
        _ => Shape::Other(format!("a number of {bytes} bytes")),
    }
}

fn is_letter(of: BtfType<'_>) -> bool {
    let name = of.skip_mods_and_typedefs();
    Int::try_from(name).is_ok_and(|int| int.bits == 8) && name.name().is_some_and(|name| name == "char")
}

impl Types for KernelTypes<'_> {
    fn usdt(&self, path: &str, provider: &str, name: &str) -> Result<Usdt, String> {
        super::programs::usdt(path, provider, name)
    }

    fn record(&self, category: &str, name: &str) -> Result<Vec<RecordField>, String> {
        super::tracefs::record(self.files, category, name)
    }

    fn point(&self, name: &str) -> Option<Vec<(String, Shape)>> {
        // Only what is a tracepoint.
        let typedef: Option<BtfType<'_>> = self.btf.type_by_name(&format!("btf_trace_{name}"));
        typedef.filter(|found| found.kind() == BtfKind::Typedef)?;
        let caller = CALLERS.iter().find_map(|caller| self.btf.type_by_name::<Func<'_>>(&format!("{caller}{name}")))?;
        let prototype = FuncProto::try_from(caller.next_type()?).ok()?;
        // The first is the listener's own.
        let arguments = prototype.iter().skip(1).map(|argument| {
            let name = argument.name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let found = self.btf.type_by_id::<BtfType<'_>>(argument.ty);
            (name, found.map_or_else(|| Shape::Other("nothing".to_owned()), |found| self.shape(found)))
        });
        Some(arguments.collect())
    }

    fn points(&self) -> Vec<String> {
        let typedefs = self.btf.type_by_kind::<BtfType<'_>>().filter(|found| found.kind() == BtfKind::Typedef);
        let names = typedefs.filter_map(|found| Some(found.name()?.to_str()?.strip_prefix("btf_trace_")?.to_owned()));
        names.collect()
    }

    fn structure(&self, name: &str) -> Option<u32> {
        let found = self.btf.type_by_kind::<BtfType<'_>>().filter(BtfType::is_composite);
        found.into_iter().find(|found| found.name().is_some_and(|own| own == name)).map(|found| found.type_id().into())
    }

    fn name(&self, structure: u32) -> String {
        let found = self.btf.type_by_id::<BtfType<'_>>(TypeId::from(structure));
        let name = found.and_then(|found| found.name()).map(|name| name.to_string_lossy().into_owned());
        format!("struct {}", name.unwrap_or_default()).trim_end().to_owned()
    }

    fn field(&self, structure: u32, name: &str) -> Option<(u32, Shape)> {
        self.find(structure, name, 0).map(|(bit, shape)| (bit / 8, shape))
    }

    fn fields(&self, structure: u32) -> Vec<String> {
        let mut names = Vec::new();
        self.names(structure, 0, &mut names);
        names
    }
}
