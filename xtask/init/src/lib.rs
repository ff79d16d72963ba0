//! What `cargo xtask vm` orders the first process of a test kernel to do, and how that reports.
//!
//! Both sides use these types, so the two forms cannot drift apart. Orders travel as a file in the initramfs,
//! reports as lines on the second serial port, between the lines that jobs print there themselves.

use std::fmt;

/// Where the initramfs holds the orders, and the modules that they name.
pub const ORDERS: &str = "/orders";
pub const MODULES: &str = "/modules";

/// The tag of the share that holds the host's root file system.
pub const SHARE: &str = "host";

/// The tag of the share with programs for a guest that cannot run the host's.
pub const PROGRAMS: &str = "programs";

/// Between the parts of a line and between lines: characters that no path and no command has.
const PART: char = '\u{1f}';
const LINE: char = '\u{1e}';

/// What marks a line as a report: no job prints it.
const MARK: &str = "##guest ";

/// Everything the guest has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Whether controllers are mounted as v1, with v2 beside them, as on a hybrid host.
    pub hybrid: bool,
    /// Whether the share [`PROGRAMS`] lies over the host's root.
    pub foreign: bool,
    /// Files in [`MODULES`], in the order in which they must be loaded.
    pub modules: Vec<String>,
    /// The directory on the host with all modules of this kernel.
    pub tree: String,
    /// Directory, search path, and further environment variables of the jobs.
    pub directory: String,
    pub path: String,
    pub environment: Vec<(String, String)>,
    pub jobs: Vec<Job>,
}

/// A program to run, on the host's root file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    pub program: String,
    pub arguments: Vec<String>,
}

/// What the guest says between the lines of its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A job begins.
    Begin(String),
    /// It has ended: its exit status, or 128 and a signal's number.
    End(i32),
    /// All jobs have ended.
    Done,
    /// The guest cannot do what it was told.
    Error(String),
}

// === impl Orders ===

impl Orders {
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut lines = vec![
            line("hybrid", [&*self.hybrid.to_string()]),
            line("foreign", [&*self.foreign.to_string()]),
            line("tree", [&*self.tree]),
            line("directory", [&*self.directory]),
            line("path", [&*self.path]),
        ];
        let variables = self.environment.iter();
        lines.extend(variables.map(|(name, value)| line("environment", [&**name, &**value])));
        lines.extend(self.modules.iter().map(|module| line("module", [&**module])));
        lines.extend(self.jobs.iter().map(|job| {
            let words = [&*job.name, &*job.program];
            line("job", words.into_iter().chain(job.arguments.iter().map(|word| &**word)))
        }));
        lines.join(&LINE.to_string())
    }

    /// Reads what [`Orders::to_text`] wrote; `None` if it is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut orders = Self::default();
        for line in text.split(LINE) {
            let mut parts = line.split(PART).map(str::to_owned);
            match (&*parts.next()?, parts.next()?) {
                ("hybrid", value) => orders.hybrid = value == "true",
                ("foreign", value) => orders.foreign = value == "true",
                ("tree", value) => orders.tree = value,
                ("directory", value) => orders.directory = value,
                ("path", value) => orders.path = value,
                ("environment", name) => orders.environment.push((name, parts.next()?)),
                ("module", value) => orders.modules.push(value),
                ("job", name) => {
                    orders.jobs.push(Job { name, program: parts.next()?, arguments: parts.collect() });
                }
                _ => return None,
            }
        }
        Some(orders)
    }
}

fn line<'a>(key: &'a str, values: impl IntoIterator<Item = &'a str>) -> String {
    let parts: Vec<&str> = std::iter::once(key).chain(values).collect();
    parts.join(&PART.to_string())
}

// === impl Report ===

impl Report {
    /// What a line says; `None` if a job has printed it.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (what, rest) = line.strip_prefix(MARK)?.split_once(' ')?;
        match what {
            "begin" => Some(Self::Begin(rest.to_owned())),
            "end" => rest.parse().ok().map(Self::End),
            "done" => Some(Self::Done),
            "error" => Some(Self::Error(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(job) => write!(f, "{MARK}begin {job}"),
            Self::End(status) => write!(f, "{MARK}end {status}"),
            Self::Done => write!(f, "{MARK}done "),
            Self::Error(text) => write!(f, "{MARK}error {}", text.replace('\n', " ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_given() {
        let job = Job {
            name: "sched".to_owned(),
            program: "/bin/sh".to_owned(),
            arguments: vec!["-c".to_owned(), "echo 'a b'\n\techo \"\"".to_owned(), String::new()],
        };
        let orders = Orders {
            hybrid: true,
            foreign: true,
            modules: vec!["fuse.ko".to_owned(), "virtiofs.ko".to_owned()],
            tree: "/a/b".to_owned(),
            directory: "/work dir".to_owned(),
            path: "/bin:/sbin".to_owned(),
            environment: vec![("ALL".to_owned(), String::new()), ("SIZE".to_owned(), "a b".to_owned())],
            jobs: vec![job, Job::default()],
        };
        assert_eq!(Orders::parse(&orders.to_text()), Some(orders));
        assert_eq!(Orders::parse("something else"), None);
    }

    #[test]
    fn reports_arrive_as_they_were_sent() {
        for report in [
            Report::Begin("sched".to_owned()),
            Report::End(137),
            Report::Done,
            Report::Error("no module".to_owned()),
        ] {
            assert_eq!(Report::parse(&report.to_string()), Some(report));
        }
        assert_eq!(Report::parse("test a ... ok"), None);
    }
}
