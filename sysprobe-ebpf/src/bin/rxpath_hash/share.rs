//! This object follows every packet: the verifiers of its kernels (5.10, 6.1) lose track of a bucket's index
//! if the count may be other than 1.

use sysprobe_common::rxpath::Unread;
use sysprobe_ebpf::kernel::Object;

use crate::name::Name;

#[inline(always)]
pub(crate) const fn bits() -> u64 {
    0
}

#[inline(always)]
pub(crate) const fn weight() -> u64 {
    1
}

#[inline(always)]
pub(crate) const fn weight_of(_unread: &Unread) -> u64 {
    1
}

#[inline(always)]
#[expect(clippy::unnecessary_wraps, reason = "as the other object's")]
pub(crate) fn of_flow(_packet: impl Object, _bits: u64) -> Option<bool> {
    Some(true)
}

#[inline(always)]
pub(crate) const fn of_name(_name: Name, _bits: u64) -> bool {
    true
}

#[inline(always)]
pub(crate) const fn count_waiting() {}

#[inline(always)]
pub(crate) const fn count_read() {}
