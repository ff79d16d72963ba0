//! The processor architectures that the agent is built for, and what each tool calls them.

use std::path::PathBuf;

use crate::paths;

/// Named as Go names them; images use the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// This machine's own.
    pub(crate) const HOST: Self = if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 };

    /// The name that Go, Debian and images use.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The name that Rust and QEMU use.
    pub(crate) const fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// The Rust target whose C library can be linked statically.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The C cross compiler for it, on machines of another architecture.
    pub(super) const fn compiler(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// The packages with that compiler and the C library.
    pub(super) const fn packages(self) -> [&'static str; 2] {
        match self {
            Self::Amd64 => ["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"],
            Self::Arm64 => ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        }
    }

    /// The path of the agent for this architecture: the ordinary build on this machine's own, otherwise the
    /// static one.
    pub(crate) fn agent(self, profile: &str) -> PathBuf {
        if self == Self::HOST { paths::agent(profile) } else { self.static_agent(profile) }
    }

    /// The path of the agent that is built for the explicit target.
    pub(crate) fn static_agent(self, profile: &str) -> PathBuf {
        paths::target().join(self.target()).join(profile).join("sysprobe")
    }

    /// Finished eBPF objects, as the agent's build script reads them. Kprobes read registers, so each
    /// architecture has its own objects.
    pub(crate) fn objects(self) -> PathBuf {
        self.beside("target/ebpf")
    }

    /// Cargo's directory for the eBPF build. It is separate because flags and compiler differ from the
    /// host's: a shared directory would be rebuilt on every switch.
    pub(super) fn ebpf_build(self) -> PathBuf {
        self.beside("target/ebpf-build")
    }

    /// A directory for output of this architecture: `name` for this machine's own, otherwise one beside it.
    pub(crate) fn beside(self, name: &str) -> PathBuf {
        let other = || format!("{name}-{}", self.machine());
        paths::root().join(if self == Self::HOST { name.to_owned() } else { other() })
    }
}
