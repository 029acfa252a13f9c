//! Calls of functions of programs and libraries: each one counted, those from another file apart from those within one.
//!
//! Invariants: a count is exact from [`Functions::start`] on, for the process alone and not for its children. A
//! function that has several names counts once, and functions that a processor's abilities choose while a program is
//! loaded (`STT_GNU_IFUNC`, as `memcpy`) are seen only where the file has names of those that may be chosen.
//! Limits: [`FUNCTIONS_MAX`] functions, [`FILE_BYTES_MAX`] bytes of a file. On x86-64 alone.

mod files;
mod stopped;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore as _, MapFlags, UprobeMultiOpts};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolFlags};
use ogive_journal::{Disk as _, RealDisk};

use crate::fields::Fields;
use crate::filter::Config;
use crate::object::{Loaded, Plan, failed, value, values_of_cpus};
use crate::run_time::RunTime;
use crate::{Error, Filter, Grouping};

pub use crate::ask::found;
pub use files::{linked, mapped};
pub use stopped::Stopped;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/functions.bpf.o"));

/// Functions of all files together: a C library has 2,400, an interpreter 2,000.
pub const FUNCTIONS_MAX: usize = 65_536;

/// Longest file whose functions are counted.
pub const FILE_BYTES_MAX: u64 = 1 << 29;

/// What was counted of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its file.
    pub file: PathBuf,
    /// Its name.
    pub name: String,
    /// Calls from another file of the process.
    pub outside: u64,
    /// Calls from its own file.
    pub inside: u64,
}

/// A function of a file: its place there, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    name: String,
    offset: u64,
    address: u64,
}

/// The functions of a file, and the addresses that it has.
struct Image {
    places: Vec<Place>,
    low: u64,
    high: u64,
}

/// Counts calls of functions while it lives.
pub struct Functions {
    loaded: Loaded,
    all: Vec<(PathBuf, String)>,
    before: Vec<[u64; 2]>,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").field("functions", &self.all.len()).finish_non_exhaustive()
    }
}

impl Functions {
    /// Counts the calls of all functions of `files` in a process, from now on.
    ///
    /// # Errors
    /// When a file cannot be read, has none, or the kernel refuses the programs.
    pub fn start(process: u32, files: &[PathBuf]) -> Result<Self, Error> {
        let mut images = Vec::new();
        for file in files {
            images.push((file, image(file).map_err(|reason| Error::Input(format!("{}: {reason}", file.display())))?));
        }
        let count: usize = images.iter().map(|(_, image)| image.places.len()).sum();
        if count == 0 || count > FUNCTIONS_MAX {
            return Err(Error::Input(format!(
                "the {} files have {count} functions with a name: 1 to {FUNCTIONS_MAX} can be counted; name some files with --library",
                files.len()
            )));
        }
        let config = Config {
            filter: &Filter::Process(process),
            grouping: Grouping::Process,
            herd_min: 0,
            shard_mask: 0,
            parts: 0,
        };
        let sizes = [("functions", count as u32), ("counts", count as u32)];
        let plan = Plan { object: OBJECT, config: config.bytes(), without: &[], sizes: &sizes };
        let loaded = Loaded::load(&plan)?;
        let mut all = Vec::with_capacity(count);
        for (file, image) in &images {
            let first = all.len();
            for place in &image.places {
                let index = all.len() as u32;
                let words = [place.address, image.low, image.high].map(u64::to_ne_bytes).concat();
                let put = loaded.map("functions").update(&index.to_ne_bytes(), &words, MapFlags::ANY);
                put.map_err(failed("functions"))?;
                all.push(((*file).clone(), place.name.clone()));
            }
            if !image.places.is_empty() {
                attach(&loaded, process, file, image, first)?;
            }
        }
        Ok(Self { loaded, before: vec![[0; 2]; all.len()], all })
    }

    /// Functions that are counted.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.all.len()
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.loaded.run_times()
    }

    /// What was counted since the last time, most calls first.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn drain(&mut self) -> Result<Vec<Function>, Error> {
        let map = self.loaded.map("counts");
        let mut functions = Vec::new();
        for (index, ((file, name), before)) in (0..).zip(self.all.iter().zip(&mut self.before)) {
            let mut now = [0; 2];
            for bytes in values_of_cpus(&map, index, "counts of functions")? {
                let mut fields = Fields(&bytes);
                now = [now[0] + fields.u64(), now[1] + fields.u64()];
            }
            let [outside, inside] = [now[0] - before[0], now[1] - before[1]];
            *before = now;
            if outside + inside > 0 {
                functions.push(Function { file: file.clone(), name: name.clone(), outside, inside });
            }
        }
        functions.sort_by(|a, b| (b.outside + b.inside).cmp(&(a.outside + a.inside)).then(a.name.cmp(&b.name)));
        Ok(functions)
    }

    /// Calls whose caller could not be read, and which count as from outside.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn unknown_callers(&self) -> Result<u64, Error> {
        Ok(Fields(&value(&self.loaded.map("unknown_callers"), 0, "unknown callers")?).u64())
    }
}

fn attach(loaded: &Loaded, process: u32, file: &Path, image: &Image, first: usize) -> Result<(), Error> {
    let options = UprobeMultiOpts {
        offsets: image.places.iter().map(|place| place.offset as usize).collect(),
        cookies: (first as u64..).take(image.places.len()).collect(),
        ..UprobeMultiOpts::default()
    };
    let process = i32::try_from(process).map_err(|_| Error::Input(format!("there is no process {process}")))?;
    let what = format!("probes of the {} functions of {}", image.places.len(), file.display());
    loaded.attach_by("on_function", &what, |program| program.attach_uprobe_multi_with_opts(process, file, "", options))
}

/// The bytes of a file that may be a program.
fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let length = RealDisk.length(path).map_err(|error| error.to_string())?;
    if length > FILE_BYTES_MAX {
        return Err(format!("{length} bytes, and files of up to {FILE_BYTES_MAX} are read"));
    }
    RealDisk.read(path).map_err(|error| error.to_string())
}

/// STT_FUNC of the ELF format; STT_GNU_IFUNC is the choice of a function, and not one.
const FUNCTION: u8 = 2;

fn image(path: &Path) -> Result<Image, String> {
    let bytes = bytes_of(path)?;
    let file = ElfFile64::<object::LittleEndian, _>::parse(&*bytes).map_err(|error| error.to_string())?;
    let segments: Vec<(u64, u64, u64)> = file
        .segments()
        .map(|segment| (segment.address(), segment.size(), segment.file_range()))
        .map(|(address, size, (offset, _))| (address, size, offset))
        .collect();
    let offset_of = |address: u64| {
        let found = segments.iter().find(|(from, size, _)| address >= *from && address - from < *size);
        found.and_then(|(from, _, offset)| offset.checked_add(address - from))
    };
    let mut by_address: HashMap<u64, String> = HashMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_function = matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info & 0xf == FUNCTION);
        let Ok(name) = symbol.name() else { continue };
        if !is_function || symbol.is_undefined() || symbol.size() == 0 || name.is_empty() {
            continue;
        }
        let known = by_address.entry(symbol.address()).or_insert_with(|| name.to_owned());
        // Of several names the one that people write.
        let rank = |name: &str| (name.starts_with('_'), name.len(), name.to_owned());
        if rank(name) < rank(known) {
            name.clone_into(known);
        }
    }
    let place = |(address, name)| offset_of(address).map(|offset| Place { name, offset, address });
    let mut places: Vec<Place> = by_address.into_iter().filter_map(place).collect();
    places.sort_by_key(|place| place.address);
    let low = segments.iter().map(|(from, ..)| *from).min().unwrap_or(0);
    let high = segments.iter().map(|(from, size, _)| from.saturating_add(*size)).max().unwrap_or(0);
    Ok(Image { places, low, high })
}
