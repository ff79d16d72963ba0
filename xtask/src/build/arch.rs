//! The processors that the agent is built for, and what each tool calls them.

use std::path::PathBuf;

use crate::paths;

/// By the names that Go gives them, which images have too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// This machine's own.
    pub(crate) const HOST: Self = if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 };

    /// As Go, Debian and images call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust and QEMU call it.
    pub(crate) const fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// The target whose C library can be linked statically.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The C compiler for it on machines that are of another kind.
    pub(super) const fn compiler(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// What brings that compiler and the C library, by package.
    pub(super) const fn packages(self) -> [&'static str; 2] {
        match self {
            Self::Amd64 => ["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"],
            Self::Arm64 => ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        }
    }

    /// The agent that cargo builds for it: the static one, unless this machine is of the same kind and builds
    /// its own.
    pub(crate) fn agent(self, profile: &str) -> PathBuf {
        if self == Self::HOST { paths::agent(profile) } else { self.static_agent(profile) }
    }

    /// The agent that cargo builds for the target by its name.
    pub(crate) fn static_agent(self, profile: &str) -> PathBuf {
        paths::target().join(self.target()).join(profile).join("sysprobe")
    }

    /// A directory for what is made for it: `name` for this machine's own, and for others one beside it.
    pub(crate) fn beside(self, name: &str) -> PathBuf {
        let other = || format!("{name}-{}", self.machine());
        paths::root().join(if self == Self::HOST { name.to_owned() } else { other() })
    }
}
