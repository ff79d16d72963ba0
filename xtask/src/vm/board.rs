//! QEMU's machines: what is called differently where processors are of another kind.

use crate::build::Arch;

/// One kind of machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board {
    pub(super) program: &'static str,
    pub(super) machine: &'static str,
    /// What is emulated.
    pub(super) processor: &'static str,
    /// Where the kernel finds the first serial port.
    pub(super) console: &'static str,
    /// How to plug the second one in, whose other end is the character device `reports`.
    pub(super) reports: [&'static str; 2],
    /// What the kernel has to be told about its clock.
    pub(super) clock: &'static str,
}

impl Board {
    pub(super) const fn of(arch: Arch) -> Self {
        match arch {
            Arch::Amd64 => Self {
                program: "qemu-system-x86_64",
                machine: "q35",
                processor: "max",
                console: "ttyS0",
                reports: ["-serial", "chardev:reports"],
                clock: " tsc=reliable",
            },
            // As many nodes of clouds have it. `max` signs pointers, and 7.2 takes half of its time for that.
            // The board has one serial port; another comes as a card.
            Arch::Arm64 => Self {
                program: "qemu-system-aarch64",
                machine: "virt,gic-version=3",
                processor: "neoverse-n1",
                console: "ttyAMA0",
                reports: ["-device", "pci-serial,chardev=reports"],
                clock: "",
            },
        }
    }
}
