//! Pseudo file systems, which are not storage: interfaces to the kernel, and objects that are files only by
//! name.
//!
//! The magic number of the super block identifies them (`include/uapi/linux/magic.h`, and the file systems
//! themselves). It never changes. A file system that is not in the list is storage: a new one shows up rather
//! than vanishes.

macro_rules! pseudo {
    ($($name:literal $magic:literal),+ $(,)?) => {
        /// Their names and magic numbers.
        pub const PSEUDO: &[(&str, u32)] = &[$(($name, $magic)),+];

        /// Whether a super block's magic number is that of a pseudo file system. The compiler turns this into
        /// a tree of comparisons; a search of the table would be a loop.
        #[inline]
        #[must_use]
        pub const fn is_pseudo(magic: u32) -> bool {
            matches!(magic, $($magic)|+)
        }
    };
}

pseudo! {
    "anon_inode" 0x0904_1934,
    "apparmorfs" 0x5a3c_69f0,
    "autofs" 0x0187,
    "binder" 0x6c6f_6f70,
    "binfmt_misc" 0x4249_4e4d,
    "bpf" 0xcafe_4a11,
    "cgroup" 0x0027_e0eb,
    "cgroup2" 0x6367_7270,
    "configfs" 0x6265_6570,
    "debugfs" 0x6462_6720,
    "devpts" 0x1cd1,
    "dma-buf" 0x444d_4142,
    "efivarfs" 0xde5e_81e4,
    "fusectl" 0x6573_5543,
    "guest-memfd" 0x474d_454d,
    "mqueue" 0x1980_0202,
    "nfsd" 0x6e66_7364,
    "nsfs" 0x6e73_6673,
    "openprom" 0x9fa1,
    "pidfs" 0x5049_4446,
    "pipefs" 0x5049_5045,
    "proc" 0x9fa0,
    "pstore" 0x6165_676c,
    "resctrl" 0x0765_5821,
    "rpc_pipefs" 0x6759_6969,
    "secretmem" 0x5345_434d,
    "securityfs" 0x7363_6673,
    "selinux" 0xf97c_ff8c,
    "smack" 0x4341_5d53,
    "sockfs" 0x534f_434b,
    "sysfs" 0x6265_6572,
    "tracefs" 0x7472_6163,
    "usbdevice" 0x9fa2,
    "xenfs" 0xabba_1974,
}

/// Whether a name leads to a usual mount point of a pseudo file system, for calls that end without a file to
/// check. `name` has its first eight bytes, padded with zeros.
#[inline]
#[must_use]
pub const fn leads_to_pseudo(name: [u8; 8]) -> bool {
    matches!(name, [b'/', b's', b'y', b's', 0 | b'/', ..] | [b'/', b'p', b'r', b'o', b'c', 0 | b'/', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_pseudo_and_what_pods_store_on_is_not() {
        assert!(PSEUDO.iter().all(|(_, magic)| is_pseudo(*magic)));
        // ext4, xfs, btrfs, overlayfs, tmpfs, nfs, fuse, ceph, zfs, 9p, virtiofs is fuse.
        let storage = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x794c_7630,
            0x0102_1994,
            0x6969,
            0x6573_5546,
            0x00c3_6400,
            0x2fc1_2fc1,
            0x0102_1997,
        ];
        assert!(!storage.into_iter().any(is_pseudo));
    }

    #[test]
    fn a_name_leads_to_pseudo_files_only_below_their_directories() {
        for (name, is) in [
            (b"/proc/1/", true),
            (b"/proc\0\0\0", true),
            (b"/sys/fs/", true),
            (b"/sys\0\0\0\0", true),
            (b"/system/", false),
            (b"/process", false),
            (b"/procs/a", false),
            (b"proc/1/a", false),
            (b"\0\0\0\0\0\0\0\0", false),
        ] {
            assert_eq!(leads_to_pseudo(*name), is, "{name:?}");
        }
    }
}
