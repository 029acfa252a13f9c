//! Names of functions for the addresses of a report, offline: from the program itself or from the file of debug
//! information that was split from it.

use std::path::{Path, PathBuf};

use ogive_journal::Disk;

use crate::report::{Frame, Report};
use crate::stack::build_id;

/// A frame with what its debug information says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Innermost function first: those that were inlined into the last one.
    pub functions: Vec<(String, String)>,
}

/// Files to look into for the module of `frame`: `given`, /usr/lib/debug/.build-id, `FILE.debug` beside the module, the
/// module, and this program.
fn candidates(frame: &Frame, given: Option<&Path>) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = given.map(Path::to_owned).into_iter().collect();
    if let Some((directory, rest)) = frame.build_id.split_at_checked(2) {
        out.push(PathBuf::from(format!("/usr/lib/debug/.build-id/{directory}/{rest}.debug")));
    }
    out.push(PathBuf::from(format!("{}.debug", frame.module)));
    out.push(PathBuf::from(&frame.module));
    out.extend(std::env::current_exe().ok());
    out
}

/// The names of every frame of `report`, in their order; none where no file has the frame's build id.
pub fn named(disk: &impl Disk, report: &Report, given: Option<&Path>) -> Vec<Option<Named>> {
    let mut loaders: Vec<(String, Option<addr2line::Loader>)> = Vec::new();
    let mut out = Vec::new();
    for frame in &report.frames {
        let known = loaders.iter().position(|(module, _)| *module == frame.module);
        let at = known.unwrap_or_else(|| {
            loaders.push((frame.module.clone(), loader(disk, frame, given)));
            loaders.len() - 1
        });
        out.push(loaders[at].1.as_ref().and_then(|loader| name(loader, frame.address)));
    }
    out
}

fn loader(disk: &impl Disk, frame: &Frame, given: Option<&Path>) -> Option<addr2line::Loader> {
    if frame.build_id.is_empty() {
        return None;
    }
    let is_of_it = |path: &PathBuf| {
        let bytes = disk.read(path).ok()?;
        (build_id(&object::File::parse(&*bytes).ok()?) == frame.build_id).then_some(())
    };
    let path = candidates(frame, given).into_iter().find(|path| is_of_it(path).is_some())?;
    addr2line::Loader::new(path).ok()
}

/// The functions at `address`. Debug information of lines alone has names without their paths, so the outermost
/// function, the one that has code of its own, is named by the symbol table where that has it.
fn name(loader: &addr2line::Loader, address: u64) -> Option<Named> {
    let mut functions = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.demangle().ok());
            let place = frame
                .location
                .map(|location| format!("{}:{}", location.file.unwrap_or("?"), location.line.unwrap_or_default()));
            functions.extend(name.map(|name| (name.into_owned(), place.unwrap_or_default())));
        }
    }
    let symbol = loader.find_symbol(address).map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
    match (functions.last_mut(), symbol) {
        (Some((name, _)), Some(symbol)) => *name = symbol,
        (None, Some(symbol)) => functions.push((symbol, String::new())),
        (Some(_), None) => {}
        (None, None) => return None,
    }
    Some(Named { functions })
}
