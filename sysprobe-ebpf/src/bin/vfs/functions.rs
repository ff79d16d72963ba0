//! VFS functions by BPF trampolines. Both programs of a function share one trampoline, so their contexts have
//! the same address, on the task's stack. It tells nested calls apart.

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use sysprobe_common::vfs::{Call, Operation, VfsLoss};
use sysprobe_ebpf::kernel::Typed;

use crate::accounting::lose;
use crate::table::functions;
use crate::{asynchronous, begin, call, current, end};

#[inline(always)]
fn frame(ctx: &impl EbpfContext) -> u64 {
    ctx.as_ptr() as u64
}

/// An argument or result that is a `struct file *`, or the registers of a system call.
#[inline(always)]
fn typed(address: *const u8) -> Typed {
    // SAFETY: the table has the positions of such pointers only.
    unsafe { Typed::new(address) }
}

macro_rules! on_file {
    ($($entry:ident $return:ident $operation:ident, file $file:literal,
       $width:ident $result:literal;)+) => {$(
        #[fentry]
        fn $entry(ctx: FEntryContext) -> i32 {
            let operations = call::on_file(typed(ctx.arg($file)), Operation::$operation);
            // Writes to sockets pass here, too.
            if operations != 0 {
                begin(current(), Call { frame: frame(&ctx), operations, ..Call::NONE });
            }
            0
        }

        #[fexit]
        fn $return(ctx: FExitContext) -> i32 {
            if call::on_file(typed(ctx.arg($file)), Operation::$operation) == 0 {
                return 0;
            }
            let result = call::$width(ctx.arg::<u64>($result));
            if !end(current(), frame(&ctx), |call| (call.operations, result)) {
                lose(VfsLoss::BeginningMissed);
            }
            0
        }
    )+};
}

macro_rules! on_syscall {
    ($($entry:ident $return:ident $operation:ident;)+) => {$(
        #[fentry]
        fn $entry(ctx: FEntryContext) -> i32 {
            let task = current();
            let operations = call::on_first_argument(task, typed(ctx.arg(0)), Operation::$operation);
            begin(task, Call { frame: frame(&ctx), operations, ..Call::NONE });
            0
        }

        #[fexit]
        fn $return(ctx: FExitContext) -> i32 {
            let result = call::int(ctx.arg::<u64>(1));
            end(current(), frame(&ctx), |call| (call.operations, result));
            0
        }
    )+};
}

macro_rules! transfer {
    ($($entry:ident $return:ident;)+) => {$(
        #[fentry]
        fn $entry(ctx: FEntryContext) -> i32 {
            let operations = call::on_files(typed(ctx.arg(0)), typed(ctx.arg(2)));
            begin(current(), Call { frame: frame(&ctx), operations, ..Call::NONE });
            0
        }

        #[fexit]
        fn $return(ctx: FExitContext) -> i32 {
            let result = call::long(ctx.arg::<u64>(6));
            end(current(), frame(&ctx), |call| (call.operations, result));
            0
        }
    )+};
}

macro_rules! on_name {
    ($($entry:ident $return:ident $operation:ident,
        directory $directory:literal, name $name:literal, result $result:literal;)+) => {$(
        #[fentry]
        fn $entry(ctx: FEntryContext) -> i32 {
            let task = current();
            let (directory, name) = (ctx.arg::<i32>($directory), ctx.arg::<u64>($name));
            let operations = call::on_name(task, directory, name, Operation::$operation);
            begin(task, Call { frame: frame(&ctx), operations, ..Call::NONE });
            0
        }

        #[fexit]
        fn $return(ctx: FExitContext) -> i32 {
            let result = call::int(ctx.arg::<u64>($result));
            end(current(), frame(&ctx), |call| (call.operations, result));
            0
        }
    )+};
}

macro_rules! aio {
    ($($entry:ident $return:ident $operation:ident;)+) => {$(
        #[fentry]
        fn $entry(ctx: FEntryContext) -> i32 {
            let call = asynchronous::aio_begins(typed(ctx.arg(0)), Operation::$operation);
            begin(current(), Call { frame: frame(&ctx), ..call });
            0
        }

        #[fexit]
        fn $return(ctx: FExitContext) -> i32 {
            let result = call::int(ctx.arg::<u64>(4));
            end(current(), frame(&ctx), |call| asynchronous::aio_submitted(call, result));
            0
        }
    )+};
}

macro_rules! part {
    ($($entry:ident $return:ident;)+) => {$(
        #[fentry]
        fn $entry(ctx: FEntryContext) -> i32 {
            begin(current(), Call { frame: frame(&ctx), ..call::OF_REQUEST });
            0
        }

        #[fexit]
        fn $return(ctx: FExitContext) -> i32 {
            end(current(), frame(&ctx), |_| call::NOT_COUNTED);
            0
        }
    )+};
}

functions!(on_file, on_syscall, transfer, on_name, aio, part);

/// proto: v5.10- `struct file *do_filp_open(int dfd, struct filename *pathname, const struct open_flags *op)`
///
/// Renamed `do_file_open` in 7.0.
#[fentry]
fn vfs_open_in(ctx: FEntryContext) -> i32 {
    let (directory, name) = (ctx.arg::<i32>(0), ctx.arg::<u64>(1));
    let call = Call { frame: frame(&ctx), name, directory, operations: Operation::Open.bit(), ..Call::NONE };
    begin(current(), call);
    0
}

#[fexit]
fn vfs_open_out(ctx: FExitContext) -> i32 {
    let (task, opened) = (current(), ctx.arg::<u64>(3));
    end(task, frame(&ctx), |call| match call::error(opened) {
        Some(error) => (call::of_failed_open(error, call, task), error),
        None => (call::of_open(typed(ctx.arg(3))), 0),
    });
    0
}

/// proto: v5.10- `vm_fault_t filemap_fault(struct vm_fault *vmf)`
#[fentry]
fn vfs_fault_in(ctx: FEntryContext) -> i32 {
    let operations = call::on_fault(typed(ctx.arg(0)));
    begin(current(), Call { frame: frame(&ctx), operations, ..Call::NONE });
    0
}

#[fexit]
fn vfs_fault_out(ctx: FExitContext) -> i32 {
    let result = ctx.arg::<u64>(1);
    end(current(), frame(&ctx), |call| (call::of_fault(call, result), 0));
    0
}

/// proto: v5.10- `void aio_complete_rw(struct kiocb *kiocb, long res, …)`
#[fentry]
fn vfs_aio_done_in(ctx: FEntryContext) -> i32 {
    asynchronous::aio_ends(typed(ctx.arg(0)), call::long(ctx.arg(1)));
    0
}
