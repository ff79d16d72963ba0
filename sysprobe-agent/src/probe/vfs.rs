//! Storage operations.

use sysprobe_common::vfs::syscall::TABLE;
use sysprobe_common::vfs::{Call, Entered, STARTED, Started, TaskCall, VfsStats};

use super::Hook::{Fentry, Fexit, Kprobe, Kretprobe, RawTp, TpBtf};
use super::map::{array, counters, hash, mapped_array, task_storage, words};
use super::{
    AttachMode, EntryCount, MapSpec, Member, Need, Object, Probe, Program, ProgramSet, SlotMaps, extra,
    member, object, optional, program, task_members,
};

pub(crate) const SLOTS: SlotMaps =
    SlotMaps { stats: "VFS_STATS", known: "VFS_SLOTS", free: "VFS_FREE", room: "VFS_ROOM" };

static COUNTERS: [MapSpec; 4] = SLOTS.specs::<VfsStats, u64>(EntryCount::Slots);
/// Further maps that both objects have.
static COMMON: [MapSpec; 5] = [
    counters("VFS_LOSSES"),
    hash::<u64, Started>("VFS_STARTED", EntryCount::Fixed(STARTED)),
    array::<u32>("VFS_SYSCALLS", EntryCount::Fixed(SYSCALLS)),
    mapped_array::<Entered>("VFS_ENTERED", EntryCount::Cpus),
    words("VFS_TURN", 1),
];
#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const SYSCALLS: u32 = TABLE as u32;

/// Keeps a task's current call in task storage, and uses typed pointers (BTF).
static OBJECT: Object =
    object!("vfs.o", &COUNTERS, &COMMON, &task_storage::<TaskCall>("VFS_TASKS", "VFS_BUDGET"));
/// Keeps it in a hash, and uses plain addresses.
static HASH_OBJECT: Object =
    object!("vfs_hash.o", &COUNTERS, &COMMON, &[hash::<u64, Call>("VFS_CALLS", EntryCount::Tracked)]);

macro_rules! members {
    ($($more:expr),* $(,)?) => {
        task_members![
            member("OFF_TASK_FILES", &["task_struct.files"]),
            member("OFF_TASK_FS", &["task_struct.fs"]),
            member("OFF_DENTRY_SB", &["dentry.d_sb"]),
            member("OFF_FDTABLE_FD", &["fdtable.fd"]),
            member("OFF_FDTABLE_MAX", &["fdtable.max_fds"]),
            member("OFF_FILENAME_NAME", &["filename.name"]),
            member("OFF_FILES_TABLE", &["files_struct.fdt"]),
            member("OFF_FILE_INODE", &["file.f_inode"]),
            member("OFF_FILE_MODE", &["file.f_mode"]),
            member("OFF_FS_WORKING", &["fs_struct.pwd.dentry"]),
            member("OFF_INODE_MODE", &["inode.i_mode"]),
            member("OFF_INODE_SB", &["inode.i_sb"]),
            member("OFF_SB_MAGIC", &["super_block.s_magic"]),
            optional("CFG_RING_BEGIN_PARAMETERS",
                &["btf_trace_io_uring_submit_req.()", "btf_trace_io_uring_submit_sqe.()"]),
            optional("PARAMS_RING_BEGIN", &["btf_trace_io_uring_submit_req.()"]),
            optional("PARAMS_RING_BEGIN_OLD", &["btf_trace_io_uring_submit_sqe.()"]),
            optional("OFF_RING_FILE", &["io_kiocb.file"]),
            optional("OFF_RING_FLAGS", &["io_kiocb.flags"]),
            optional("OFF_RING_OPCODE", &["io_kiocb.opcode"]),
            optional("OFF_RING_RESULT", &["io_kiocb.cqe.res"]),
            optional("OFF_RING_DESCRIPTOR", &["io_kiocb.cqe.fd"]),
            $($more),*
        ]
    };
}

static MEMBERS: &[Member] = members!(
    member("OFF_FAULT_MAPPING", &["vm_fault.vma"]),
    member("OFF_MAPPING_FILE", &["vm_area_struct.vm_file"]),
    optional("OFF_KIOCB_FILE", &["kiocb.ki_filp"]),
);
/// x86 has a separate status word, other architectures a flag.
static SYSCALL_MEMBERS: &[Member] =
    members!(member("OFF_TASK_COMPAT", &["task_struct.thread_info.status", "task_struct.thread_info.flags"]));

const BEGINS: &str = "records the start of a call";
const ENDS: &str = "counts the finished call";
const FORGETS: &str = "removes the record of a thread that ends";

const RING_BEGINS: &str = "records the start of an io_uring request";
const RING_ENDS: &str = "counts the io_uring request that completes";
const AIO_ENDS: &str = "counts the libaio request that completes";

const RING_END: Program = extra("vfs_ring_e_tp", TpBtf("io_uring_complete"), RING_ENDS);
const RING_BEGIN: Program =
    extra("vfs_ring_b_tp", TpBtf("io_uring_submit_req"), RING_BEGINS).unless("PARAMS_RING_BEGIN_OLD");
/// The tracepoint's name before Linux 6.3.
const RING_BEGIN_OLD: Program =
    extra("vfs_ring_o_tp", TpBtf("io_uring_submit_sqe"), RING_BEGINS).unless("PARAMS_RING_BEGIN");
const RAW_RING_END: Program = extra("vfs_ring_e_rt", RawTp("io_uring_complete"), RING_ENDS);
const RAW_RING_BEGIN: Program =
    extra("vfs_ring_b_rt", RawTp("io_uring_submit_req"), RING_BEGINS).unless("PARAMS_RING_BEGIN_OLD");
const RAW_RING_BEGIN_OLD: Program =
    extra("vfs_ring_o_rt", RawTp("io_uring_submit_sqe"), RING_BEGINS).unless("PARAMS_RING_BEGIN");

/// The completion of libaio's requests, then two programs per function. The exit program comes first, so that
/// every call whose entry is seen is also accounted for.
macro_rules! around {
    ($entry:ident, $exit:ident, [$($more:expr),*];
     $($begin:literal $end:literal $function:tt $older:expr, $required:ident;)+) => {
        &[
            $($more,)*
            extra("vfs_aio_done_in", $entry("aio_complete_rw"), AIO_ENDS),
            $(
            Program { older: $older, required: $required, ..program($end, $exit($function), ENDS) },
            Program { older: $older, required: $required, ..program($begin, $entry($function), BEGINS) },
        )+]
    };
}

/// Reads the page of a mapped file that a thread has touched; without it, major faults are not seen.
pub const FAULT: &str = "filemap_fault";

const REQUIRED: bool = true;
/// Without it, only calls through this function are missing.
const OPTIONAL: bool = false;

macro_rules! functions {
    ($entry:ident, $exit:ident, $more:tt) => {
        around! { $entry, $exit, $more;
            "vfs_read_in" "vfs_read_out" "vfs_read" &[], REQUIRED;
            "vfs_readv_in" "vfs_readv_out" "vfs_readv" &[], OPTIONAL;
            "vfs_iread_in" "vfs_iread_out" "vfs_iter_read" &[], OPTIONAL;
            "vfs_pipe_in" "vfs_pipe_out" "splice_file_to_pipe" &[], OPTIONAL;
            "vfs_write_in" "vfs_write_out" "vfs_write" &[], REQUIRED;
            "vfs_writev_in" "vfs_writev_out" "vfs_writev" &[], OPTIONAL;
            "vfs_iwrite_in" "vfs_iwrite_out" "vfs_iter_write" &[], OPTIONAL;
            "vfs_fsync_in" "vfs_fsync_out" "vfs_fsync_range" &[], REQUIRED;
            "vfs_fsync_s_in" "vfs_fsync_s_out" "__x64_sys_fsync" &["__arm64_sys_fsync"], REQUIRED;
            "vfs_fdata_s_in" "vfs_fdata_s_out" "__x64_sys_fdatasync" &["__arm64_sys_fdatasync"], REQUIRED;
            "vfs_range_s_in" "vfs_range_s_out" "__x64_sys_sync_file_range"
                &["__arm64_sys_sync_file_range"], OPTIONAL;
            "vfs_sync_in" "vfs_sync_out" "sync_file_range" &[], OPTIONAL;
            "vfs_splice_in" "vfs_splice_out" "do_splice" &[], OPTIONAL;
            "vfs_send_in" "vfs_send_out" "do_splice_direct" &[], OPTIONAL;
            "vfs_copy_in" "vfs_copy_out" "vfs_copy_file_range" &[], OPTIONAL;
            "vfs_open_in" "vfs_open_out" "do_file_open" &["do_filp_open"], REQUIRED;
            "vfs_mkdir_in" "vfs_mkdir_out" "filename_mkdirat" &["do_mkdirat"], OPTIONAL;
            "vfs_mknod_in" "vfs_mknod_out" "filename_mknodat" &["do_mknodat"], OPTIONAL;
            "vfs_link_in" "vfs_link_out" "filename_linkat" &["do_linkat"], OPTIONAL;
            "vfs_slink_in" "vfs_slink_out" "filename_symlinkat" &["do_symlinkat"], OPTIONAL;
            "vfs_rename_in" "vfs_rename_out" "filename_renameat2" &["do_renameat2"], OPTIONAL;
            "vfs_unlink_in" "vfs_unlink_out" "filename_unlinkat" &["do_unlinkat"], REQUIRED;
            "vfs_rmdir_in" "vfs_rmdir_out" "filename_rmdir" &["do_rmdir"], OPTIONAL;
            "vfs_fault_in" "vfs_fault_out" FAULT &[], OPTIONAL;
            "vfs_aior_in" "vfs_aior_out" "aio_read" &[], OPTIONAL;
            "vfs_aiow_in" "vfs_aiow_out" "aio_write" &[], OPTIONAL;
            "vfs_iowr_in" "vfs_iowr_out" "io_write" &[], OPTIONAL;
            "vfs_dio_in" "vfs_dio_out" "iomap_dio_complete_work" &[], OPTIONAL;
            "vfs_old_dio_in" "vfs_old_dio_out" "dio_aio_complete_work" &[], OPTIONAL;
        }
    };
}

pub(super) const PROBE: Probe = Probe {
    domain: "vfs",
    summary: "Storage operations: how many, how long, how many bytes, how many errors. Attach modes that \
              hook functions see calls in the VFS (also those of kernel threads), libaio and major page \
              faults; those that hook tracepoints see system calls. Both see reads and writes of io_uring \
              (Linux 6.0)",
    sets: &[
        ProgramSet {
            mode: AttachMode::Fentry,
            object: OBJECT,
            programs: functions!(Fentry, Fexit, [RING_END, RING_BEGIN, RING_BEGIN_OLD]),
            members: MEMBERS,
            needs: &[Need::Trampolines, Need::TaskStorage],
        },
        ProgramSet {
            mode: AttachMode::TpBtf,
            object: OBJECT,
            programs: &[
                RING_END,
                RING_BEGIN,
                RING_BEGIN_OLD,
                program("vfs_exit_tp", TpBtf("sys_exit"), ENDS),
                program("vfs_enter_tp", TpBtf("sys_enter"), BEGINS),
            ],
            members: SYSCALL_MEMBERS,
            needs: &[Need::TaskStorage],
        },
        ProgramSet {
            mode: AttachMode::RawTp,
            object: HASH_OBJECT,
            programs: &[
                program("vfs_gone_rt", RawTp("sched_process_exit"), FORGETS),
                RAW_RING_END,
                RAW_RING_BEGIN,
                RAW_RING_BEGIN_OLD,
                program("vfs_exit_rt", RawTp("sys_exit"), ENDS),
                program("vfs_enter_rt", RawTp("sys_enter"), BEGINS),
            ],
            members: SYSCALL_MEMBERS,
            needs: &[],
        },
        ProgramSet {
            mode: AttachMode::Kprobe,
            object: HASH_OBJECT,
            programs: functions!(
                Kprobe,
                Kretprobe,
                [
                    program("vfs_gone_kp", Kprobe("do_exit"), FORGETS),
                    RAW_RING_END,
                    RAW_RING_BEGIN,
                    RAW_RING_BEGIN_OLD
                ]
            ),
            members: MEMBERS,
            needs: &[Need::Kprobes],
        },
    ],
};
