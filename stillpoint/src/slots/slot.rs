//! A protection slot: the pointer that a guard holds without a reference of its own, and how a writer gives it one;
//! or the pointer of a hazard pointer.
//!
//! A guard of a counted pointer (`Arc`) that has no reference of its own relies on that of the cell it was loaded
//! from. A writer that takes the pointer out of the cell *pays* for such guards before it uses the cell's reference:
//! it increments the count, and leaves the reference in the guard's slot. The guard takes it there when it is
//! dropped.
//!
//! # States
//!
//! | `protected` | `paid` | the slot |
//! |---|---|---|
//! | null | null | is free |
//! | `p` | null | belongs to a guard of `p` |
//! | `p` | `p` | belongs to a guard of `p`, which owns a reference by now |
//! | [`RELEASING`] | null or `p` | the guard of `p` is being dropped: it is about to look at `paid` |
//! | another | `p` | the guard of `p` was dropped beside the payment, which the writer takes back |
//! | [`RESERVED`] | null | belongs to a hazard pointer, which protects nothing |
//! | `p` | null | belongs to a hazard pointer, which protects `p`: see [`super::protected`] |
//!
//! The owner of the record fills slots ([`Slot::fill`]), any thread empties them ([`Slot::release`]), and writers
//! pay, one at a time ([`super::scan`]).
//!
//! # Invariants
//!
//! 1. *A slot belongs to one guard at a time*: it is filled when it is free, by its owner, and freed by its guard as
//!    the last thing that this does with it.
//! 2. *The thread that takes `paid` owns the reference*: it is a reference to the value that `paid` points to, stored
//!    by the writer that has incremented the count, and taken by one compare-exchange, of the guard or of a writer.
//! 3. *A guard takes a payment for its own value only.* A payment for the previous guard of the slot may come late:
//!    it has another address, or it is for the same value. (A value whose address is in `paid` is alive, so no other
//!    has this address. Addresses have the tags of `arc::RefCnt`.)
//! 4. While no writer pays, `paid` is null or the same as `protected`, unless the guard is being dropped.
//!
//! # A guard that is dropped while a writer pays
//!
//! Neither executes an atomic read-modify-write unless a payment is there. The guard stores and then loads, the
//! writer too, with a light and a heavy fence between: so at least one of them sees the other's store.
//!
//! ```text
//! guard, in any thread                      writer that has taken p out of the cell
//! protected = RELEASING                     count += 1, paid = p
//! light fence                               heavy fence
//! paid = p? takes it                        protected = p? leaves the payment there
//! protected = null                          otherwise takes it back
//! ```
//!
//! If both see the other's store, they both try to take the payment, and one of them gets it (2). If the writer still
//! sees `p`, the guard's light fence comes after the heavy one: the guard will find the payment.
//!
//! # Signals
//!
//! A handler that drops every guard that it has loaded before it returns may interrupt the owner anywhere: it leaves
//! each slot as it was. A slot that is being released is not free.
//!
//! # Source
//!
//! Michael, *Hazard pointers: safe memory reclamation for lock-free objects* (2004). Vaner's arc-swap calls what a
//! guard owes its cell a *debt*, which a writer pays.

use core::ptr;

use crate::fence::light;
use crate::sync::{AtomicPtr, Ordering::*, const_unless_loom, step};

/// The guard of the slot is being dropped. No value has this address.
pub(super) const RELEASING: *mut () = ptr::without_provenance_mut(usize::MAX - 1);

/// The slot belongs to a hazard pointer, which protects nothing. `stillpoint.h` has this constant too. No value has
/// this address.
const RESERVED: *mut () = ptr::without_provenance_mut(usize::MAX);

/// See the [module](self). `stillpoint.h` accesses the first word.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    protected: AtomicPtr<()>,
    paid: AtomicPtr<()>,
}

impl Slot {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { protected: AtomicPtr::new(ptr::null_mut()), paid: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    const_unless_loom! {
        /// A slot that is never free.
        pub fn sentinel() -> Self {
            Self { protected: AtomicPtr::new(RELEASING), paid: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Returns `true` if the owner may fill the slot.
    #[inline(always)]
    pub fn is_free(&self) -> bool {
        // Acquire: comes after the guard that was here; pairs with the second Release in `release`. `fill` then
        // publishes what that guard's thread did with its value.
        self.protected.load(Acquire).is_null()
    }

    /// Protects the value at `address`, which is not null, for a guard. The owner calls this inside the section in
    /// which it loaded the pointer. The slot is free.
    #[inline(always)]
    pub fn fill(&self, address: *mut ()) {
        // Release: a writer that finds this address comes after the slot's earlier guards; pairs with the Acquire in
        // `protects`. (That a writer finds it at all is the section's promise.)
        step!("slot-not-filled", self.protected.store(address, Release));
    }

    /// Frees the slot of a guard that protects `address`. Returns `true` if the guard owns a reference, which the
    /// caller must release. The guard is not used afterwards.
    #[inline(always)]
    #[must_use]
    pub fn release(&self, address: *mut ()) -> bool {
        // Release: publishes what was done with the value; pairs with the Acquire in `protects`.
        self.protected.store(RELEASING, Release);
        // Either the load below sees the payment, or the writer sees the store above, after its heavy fence.
        light();
        let is_paid = !self.paid.load(Relaxed).is_null() && self.take(address);
        // Release: as above, and the owner that fills the slot again comes after this guard; pairs with the Acquires
        // in `protects` and `is_free`.
        self.protected.store(ptr::null_mut(), Release);
        is_paid
    }

    /// Takes the free slot for a hazard pointer. The owner calls this.
    #[inline(always)]
    pub fn reserve(&self) {
        self.clear();
    }

    /// Protects `address`, which is not null, by the hazard pointer to which the slot belongs.
    #[inline(always)]
    pub fn set(&self, address: *mut ()) {
        // Release: what was done with the value that was protected before comes before it is freed; pairs with the
        // Acquire in `address`.
        step!("hazard-not-stored", self.protected.store(address, Release));
    }

    /// Protects what `load` returns, a pointer with a tag in the bits of `tag`, and returns it: the pointer was the
    /// same while the slot protected it.
    #[inline(always)]
    pub fn protect(&self, tag: usize, load: impl Fn() -> *mut ()) -> *mut () {
        let mut seen = load();
        loop {
            match self.try_protect(seen, tag, &load) {
                Ok(protected) => return protected,
                Err(now) => seen = now,
            }
        }
    }

    /// Protects `seen`, which `load` has returned. Returns what it returns now, as an error if that is another
    /// pointer. The slot then protects nothing that can be relied on.
    #[inline(always)]
    pub fn try_protect(
        &self,
        seen: *mut (),
        tag: usize,
        load: impl Fn() -> *mut (),
    ) -> Result<*mut (), *mut ()> {
        let address = seen.map_addr(|address| address & !tag);
        // Null has no value to protect, and would free the slot.
        self.set(if address.is_null() { RESERVED } else { address });
        // Either a collection sees the store above, or the load below sees that the value has been unpublished.
        light();
        let now = load();
        step!(
            "protection-not-checked",
            if now != seen {
                return Err(now);
            }
        );
        // Not `seen`, which may point to a value that was freed, whose address another one has by now.
        Ok(now)
    }

    /// Protects nothing.
    #[inline(always)]
    pub fn clear(&self) {
        // Release: as in `set`.
        self.protected.store(RESERVED, Release);
    }

    /// Frees the slot of a hazard pointer.
    #[inline(always)]
    pub fn give_back(&self) {
        // Release: as in `set`, and the owner that fills the slot again comes after; pairs with the Acquire in
        // `is_free`.
        self.protected.store(ptr::null_mut(), Release);
    }

    /// Returns the address that the slot protects.
    pub fn address(&self) -> Option<usize> {
        // Acquire: what was done with values that were protected before comes before they are freed; pairs with the
        // Releases in `set`, `clear` and `give_back`.
        let address = self.protected.load(Acquire).addr();
        (address != 0 && address < RELEASING.addr()).then_some(address)
    }

    /// Returns `true` if the slot protects `address`.
    pub fn protects(&self, address: *mut ()) -> bool {
        // Acquire: comes after the guards of `address` that were here; pairs with the Releases in `release` and
        // `fill`.
        self.protected.load(Acquire) == address
    }

    /// Returns `true` if the slot has a payment for `address`.
    pub fn is_paid(&self, address: *mut ()) -> bool {
        // Relaxed: writers pay one at a time, and a guard that takes it does so by a read-modify-write.
        self.paid.load(Relaxed) == address
    }

    /// Leaves a reference to the value at `address` in the slot. Writers call this one at a time.
    pub fn pay(&self, address: *mut ()) {
        // Release: publishes the increment of the count; pairs with the Acquire in `take`.
        step!("slot-not-paid", self.paid.store(address, Release));
    }

    /// Takes the payment for `address`, if it is there.
    #[cold]
    pub fn take(&self, address: *mut ()) -> bool {
        // Acquire: the decrement of the count comes after the increment. It is not enough that both change one word:
        // the decrement of another thread may come between, and find that it is the last. Pairs with the Release in
        // `pay`.
        self.paid.compare_exchange(address, ptr::null_mut(), Acquire, Relaxed).is_ok()
    }

    /// Forgets what threads were doing that the child of a fork does not have.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        let protected = self.protected.load(Relaxed);
        step!(
            "drop-kept-in-child",
            if protected == RELEASING {
                self.protected.store(ptr::null_mut(), Relaxed);
            }
        );
        // Otherwise the writer was about to take it back. The reference is lost.
        step!(
            "payment-kept-in-child",
            if self.paid.load(Relaxed) != protected {
                self.paid.store(ptr::null_mut(), Relaxed);
            }
        );
    }
}
