//! QEMU's machine types: the settings that differ between architectures.

use crate::build::Arch;

/// One kind of machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board {
    pub(super) program: &'static str,
    pub(super) machine: &'static str,
    /// The emulated CPU model.
    pub(super) processor: &'static str,
    /// Where the kernel finds the first serial port.
    pub(super) console: &'static str,
    /// QEMU arguments for the second serial port, which is connected to the character device `reports`.
    pub(super) reports: [&'static str; 2],
    /// A kernel argument about the clock.
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
            // Many cloud nodes have this CPU. `max` has pointer authentication, which takes half of the time
            // in QEMU 7.2. The board has one serial port; the second comes as a PCI card.
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
