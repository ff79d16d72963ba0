//! Volatile access to memory of maps. The compiler would otherwise keep a value in a register, where the
//! verifier tracks it and remembers earlier checks of it, and follows more paths.

use core::ptr;

#[inline(always)]
#[must_use]
pub fn load(place: &u64) -> u64 {
    // SAFETY: a live reference.
    unsafe { ptr::from_ref(place).read_volatile() }
}

#[inline(always)]
#[must_use]
pub fn load_u32(place: &u32) -> u32 {
    // SAFETY: as above.
    unsafe { ptr::from_ref(place).read_volatile() }
}

#[inline(always)]
pub fn store_u32(place: &mut u32, value: u32) {
    // SAFETY: as above.
    unsafe { ptr::from_mut(place).write_volatile(value) }
}

#[inline(always)]
pub fn store(place: &mut u64, value: u64) {
    // SAFETY: as above.
    unsafe { ptr::from_mut(place).write_volatile(value) }
}
