//! Whom the system asks for names, and below which domains it looks for them: `/etc/resolv.conf`.
//!
//! Why not the system's resolver: it has no call for SRV, MX and NS records.
//! Limits: [`SERVERS_MAX`], [`DOMAINS_MAX`]; what is beyond them is not asked.

use std::net::IpAddr;

/// 8 servers, each with 2 s to answer; the C library knows 3.
const SERVERS_MAX: usize = 8;
/// 32 domains; the C library once knew 6.
const DOMAINS_MAX: usize = 32;
/// 15 dots, as the C library has it.
const DOTS_MAX: usize = 15;

/// The settings of the system's resolver.
#[derive(Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Whom to ask, in this order.
    pub servers: Vec<IpAddr>,
    /// Domains that are tried behind a name.
    search: Vec<String>,
    /// A name with so many dots is tried without a domain first.
    dots: usize,
}

impl Resolver {
    /// The settings in `text`. Lines that mean nothing are left out, as the C library does.
    pub fn parse(text: &str) -> Self {
        let mut out = Self { servers: Vec::new(), search: Vec::new(), dots: 1 };
        for line in text.lines().filter(|line| !line.starts_with([';', '#'])) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => out.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok())),
                Some("domain") => out.search = words.next().map(str::to_owned).into_iter().collect(),
                Some("search") => out.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    let dots = words.rev().find_map(|word| word.strip_prefix("ndots:")?.parse::<usize>().ok());
                    out.dots = dots.unwrap_or(out.dots).min(DOTS_MAX);
                }
                _ => {}
            }
        }
        out.servers.truncate(SERVERS_MAX);
        out.search.truncate(DOMAINS_MAX);
        out
    }

    /// What is asked for `name`, in this order: a name that ends with a dot is complete.
    pub fn names(&self, name: &str) -> Vec<String> {
        if let Some(complete) = name.strip_suffix('.') {
            return vec![complete.to_owned()];
        }
        let below = self.search.iter().map(|domain| {
            let domain = domain.trim_matches('.');
            if domain.is_empty() { name.to_owned() } else { format!("{name}.{domain}") }
        });
        let is_first = name.matches('.').count() >= self.dots;
        let alone = || std::iter::once(name.to_owned());
        if is_first { alone().chain(below).collect() } else { below.chain(alone()).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_file_is_read() {
        let text = "# made\ndomain old.example\nsearch a.example b.example.\nnameserver 192.0.2.1\nnameserver ::1\n\
                    nameserver nobody\n; nameserver 192.0.2.9\noptions rotate ndots:2 timeout:1\n";
        let resolver = Resolver::parse(text);
        assert_eq!(resolver.servers, ["192.0.2.1".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
        assert_eq!((resolver.search.len(), resolver.dots), (2, 2));
        assert_eq!(Resolver::parse(""), Resolver { servers: vec![], search: vec![], dots: 1 });
        assert_eq!(Resolver::parse("options ndots:99").dots, DOTS_MAX);
        let many = |line: &str, count: usize| (0..count).map(|at| format!("{line}{at}\n")).collect::<String>();
        assert_eq!(Resolver::parse(&many("nameserver 192.0.2.", SERVERS_MAX + 1)).servers.len(), SERVERS_MAX);
        let domains: String = (0..=DOMAINS_MAX).map(|at| format!(" d{at}")).collect();
        assert_eq!(Resolver::parse(&format!("search{domains}")).search.len(), DOMAINS_MAX);
    }

    #[test]
    fn names_are_tried_in_the_order_of_their_dots() {
        let resolver = Resolver::parse("search a.example b.example.\n");
        assert_eq!(resolver.names("x"), ["x.a.example", "x.b.example", "x"]);
        assert_eq!(resolver.names("x.y"), ["x.y", "x.y.a.example", "x.y.b.example"]);
        assert_eq!(resolver.names("x.y."), ["x.y"]);
        assert_eq!(Resolver::parse("").names("x"), ["x"]);
    }
}
