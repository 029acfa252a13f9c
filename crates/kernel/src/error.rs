//! Errors, named after what the caller can do.

/// Why something is not observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel did not let a program in, or not where it belongs.
    #[error("{what}: {reason}{}", hint(*.errno, *.is_verifier))]
    Refused {
        /// What was tried.
        what: String,
        /// What libbpf and the kernel said.
        reason: String,
        /// The kernel's number of the error, where there is one.
        errno: Option<i32>,
        /// Whether the kernel's verifier said why: capabilities do not help then.
        is_verifier: bool,
    },
    /// What the programs wrote could not be read.
    #[error("reading {what}: {reason}")]
    Read {
        /// What was read.
        what: &'static str,
        /// What libbpf and the kernel said.
        reason: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Input(String),
    /// A command could not be started.
    #[error("{command}: {error}")]
    Command {
        /// Its name.
        command: String,
        /// Why.
        error: std::io::Error,
    },
}

/// EPERM and EACCES, for which there is a remedy, unless the verifier gave the reason.
fn hint(errno: Option<i32>, is_verifier: bool) -> &'static str {
    match errno {
        Some(1 | 13) if !is_verifier => {
            "; it needs root, or CAP_BPF and CAP_PERFMON (ogive kernel doctor shows what works)"
        }
        _ => "",
    }
}

/// The number in "... (os error 1)": libbpf-rs keeps it in the text alone.
#[cfg(any(feature = "bpf", test))]
pub(crate) fn errno_of(text: &str) -> Option<i32> {
    let (_, rest) = text.rsplit_once("(os error ")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_named_where_capabilities_are_missing_and_not_for_the_verifier() {
        for (errno, is_verifier, has_hint) in
            [(Some(1), false, true), (Some(13), false, true), (Some(13), true, false), (Some(22), false, false)]
        {
            let error = Error::Refused { what: "loading".to_owned(), reason: "no".to_owned(), errno, is_verifier };
            assert_eq!(error.to_string().contains("CAP_BPF"), has_hint, "{error}");
        }
    }

    #[test]
    fn the_number_of_an_error_is_found_in_its_text() {
        for (text, expected) in [
            ("failed to load: Operation not permitted (os error 1)", Some(1)),
            ("No such file (os error 2): and more", Some(2)),
            ("(os error x)", None),
            ("nothing", None),
        ] {
            assert_eq!(errno_of(text), expected, "{text}");
        }
    }
}
