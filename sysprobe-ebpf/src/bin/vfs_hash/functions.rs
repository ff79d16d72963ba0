//! VFS functions by kprobes and kretprobes. The stack pointer tells nested calls apart.

use aya_ebpf::macros::{kprobe, kretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use sysprobe_common::vfs::{Call, Operation};
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Address;
use sysprobe_ebpf::registers;

use crate::table::functions;
use crate::{asynchronous, begin, call, current, end};

globals!(
    /// The bytes that a return pops from the stack: 8 where the return address is on it.
    CFG_RETURN_ADDRESS,
);

#[inline(always)]
fn frame(ctx: &ProbeContext) -> u64 {
    registers::stack(ctx)
}

/// The same at the function's return.
#[inline(always)]
fn frame_behind(ctx: &RetProbeContext) -> u64 {
    registers::stack(ctx).wrapping_sub(u64::from(CFG_RETURN_ADDRESS.load()))
}

#[inline(always)]
fn argument(ctx: &ProbeContext, place: usize) -> u64 {
    ctx.arg(place).unwrap_or(0)
}

macro_rules! on_file {
    ($($entry:ident $return:ident $operation:ident, file $file:literal,
       $width:ident $result:literal;)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            let operations = call::on_file(Address(argument(&ctx, $file)), Operation::$operation);
            begin(current(), Call { frame: frame(&ctx), operations, ..Call::NONE });
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            let result = call::$width(ctx.ret::<u64>());
            end(current(), frame_behind(&ctx), |call| (call.operations, result));
            0
        }
    )+};
}

macro_rules! on_syscall {
    ($($entry:ident $return:ident $operation:ident;)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            let task = current();
            let operations = call::on_first_argument(task, Address(argument(&ctx, 0)), Operation::$operation);
            begin(task, Call { frame: frame(&ctx), operations, ..Call::NONE });
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            let result = call::int(ctx.ret::<u64>());
            end(current(), frame_behind(&ctx), |call| (call.operations, result));
            0
        }
    )+};
}

macro_rules! transfer {
    ($($entry:ident $return:ident;)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            let operations = call::on_files(Address(argument(&ctx, 0)), Address(argument(&ctx, 2)));
            begin(current(), Call { frame: frame(&ctx), operations, ..Call::NONE });
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            let result = call::long(ctx.ret::<u64>());
            end(current(), frame_behind(&ctx), |call| (call.operations, result));
            0
        }
    )+};
}

macro_rules! on_name {
    ($($entry:ident $return:ident $operation:ident,
        directory $directory:literal, name $name:literal, result $result:literal;)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            let task = current();
            let (directory, name) = (call::directory(argument(&ctx, $directory)), argument(&ctx, $name));
            let operations = call::on_name(task, directory, name, Operation::$operation);
            begin(task, Call { frame: frame(&ctx), operations, ..Call::NONE });
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            let result = call::int(ctx.ret::<u64>());
            end(current(), frame_behind(&ctx), |call| (call.operations, result));
            0
        }
    )+};
}

macro_rules! aio {
    ($($entry:ident $return:ident $operation:ident;)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            let call = asynchronous::aio_begins(Address(argument(&ctx, 0)), Operation::$operation);
            begin(current(), Call { frame: frame(&ctx), ..call });
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            let result = call::int(ctx.ret::<u64>());
            end(current(), frame_behind(&ctx), |call| asynchronous::aio_submitted(call, result));
            0
        }
    )+};
}

macro_rules! part {
    ($($entry:ident $return:ident;)+) => {$(
        #[kprobe]
        fn $entry(ctx: ProbeContext) -> u32 {
            begin(current(), Call { frame: frame(&ctx), ..call::OF_REQUEST });
            0
        }

        #[kretprobe]
        fn $return(ctx: RetProbeContext) -> u32 {
            end(current(), frame_behind(&ctx), |_| call::NOT_COUNTED);
            0
        }
    )+};
}

functions!(on_file, on_syscall, transfer, on_name, aio, part);

/// See the other object.
#[kprobe]
fn vfs_open_in(ctx: ProbeContext) -> u32 {
    let (directory, name) = (call::directory(argument(&ctx, 0)), argument(&ctx, 1));
    let call = Call { frame: frame(&ctx), name, directory, operations: Operation::Open.bit(), ..Call::NONE };
    begin(current(), call);
    0
}

#[kretprobe]
fn vfs_open_out(ctx: RetProbeContext) -> u32 {
    let (task, opened) = (current(), ctx.ret::<u64>());
    end(task, frame_behind(&ctx), |call| match call::error(opened) {
        Some(error) => (call::of_failed_open(error, call, task), error),
        None => (call::of_open(Address(opened)), 0),
    });
    0
}

/// proto: v5.10- `vm_fault_t filemap_fault(struct vm_fault *vmf)`
#[kprobe]
fn vfs_fault_in(ctx: ProbeContext) -> u32 {
    let operations = call::on_fault(Address(argument(&ctx, 0)));
    begin(current(), Call { frame: frame(&ctx), operations, ..Call::NONE });
    0
}

#[kretprobe]
fn vfs_fault_out(ctx: RetProbeContext) -> u32 {
    let result = ctx.ret::<u64>();
    end(current(), frame_behind(&ctx), |call| (call::of_fault(call, result), 0));
    0
}

/// proto: v5.10- `void aio_complete_rw(struct kiocb *kiocb, long res, …)`
#[kprobe]
fn vfs_aio_done_in(ctx: ProbeContext) -> u32 {
    asynchronous::aio_ends(Address(argument(&ctx, 0)), call::long(argument(&ctx, 1)));
    0
}
