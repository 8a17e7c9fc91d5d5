//! Twins of what the algorithm is made of, for the model checker.

use std::marker::PhantomData;
use std::ptr;

pub use stillpoint::pointer::{owned::Owned, shared::Shared};
use stillpoint::rcu::published_ptr::PublishedPtr;
pub use stillpoint::sync::{AtomicU64, AtomicUsize};

/// A domain without grace periods: what is retired is never freed, so models check that it is not found any more.
pub trait Domain: 'static {
    type Section: 'static;

    /// # Safety
    ///
    /// None is needed.
    unsafe fn retire_shared<T>(&self, _node: Shared<'_, T>, _options: DeferOptions) {}
}

/// The domain of the models.
pub struct Model;

impl Domain for Model {
    type Section = ();
}

#[derive(Clone, Copy)]
pub struct DeferOptions;

/// `memory::try_box`.
pub fn try_box<T>(value: T) -> Result<Box<T>, NoMemory> {
    Ok(Box::new(value))
}

/// `memory::NoMemory`: models have memory.
#[derive(Debug)]
pub enum NoMemory {}

impl NoMemory {
    pub fn fail(self) -> ! {
        match self {}
    }
}

impl DeferOptions {
    pub fn new() -> Self {
        Self
    }

    pub fn heap_bytes(self, _bytes: usize) -> Self {
        self
    }

    pub fn run_on_retiring_thread(self) -> Self {
        self
    }
}

/// `rcu::Atomic`.
pub struct Atomic<T, D: Domain> {
    pointer: PublishedPtr<()>,
    _pointee: PhantomData<(*mut T, fn() -> D)>,
}

// SAFETY: as `rcu::Atomic`.
unsafe impl<T: Send + Sync, D: Domain> Send for Atomic<T, D> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, D: Domain> Sync for Atomic<T, D> {}

/// `rcu::CompareExchangeError`.
pub struct CompareExchangeError<'g, T> {
    pub current: Shared<'g, T>,
    pub new: Owned<T>,
}

impl<T, D: Domain> Atomic<T, D> {
    pub fn null() -> Self {
        Self { pointer: PublishedPtr::new(ptr::null_mut()), _pointee: PhantomData }
    }

    pub fn new(new: Owned<T>) -> Self {
        Self { pointer: PublishedPtr::new(new.into_raw()), _pointee: PhantomData }
    }

    fn shared<'g>(pointer: *mut ()) -> Shared<'g, T> {
        // SAFETY: models free nothing that is retired.
        unsafe { Shared::from_ptr(pointer.cast()) }
    }

    pub fn load<'g>(&self, _section: &'g D::Section) -> Shared<'g, T> {
        Self::shared(self.pointer.load())
    }

    /// # Safety
    ///
    /// As `rcu::Atomic::load_unprotected`.
    pub unsafe fn load_unprotected<'a>(&self) -> Shared<'a, T> {
        Self::shared(self.pointer.load())
    }

    pub fn get_mut(&mut self) -> Shared<'_, T> {
        Self::shared(self.pointer.load())
    }

    pub fn store(&self, new: impl Pointer<T>) {
        self.pointer.store(new.into_raw());
    }

    pub fn compare_exchange<'g>(
        &self,
        current: Shared<'_, T>,
        new: Owned<T>,
        _section: &'g D::Section,
    ) -> Result<Shared<'g, T>, CompareExchangeError<'g, T>> {
        let new = new.into_raw();
        match self.pointer.compare_exchange(current.into_raw(), new) {
            Ok(_) => Ok(Self::shared(new)),
            Err(current) => {
                // SAFETY: it was not stored.
                let new = unsafe { Self::shared(new).into_owned() };
                Err(CompareExchangeError { current: Self::shared(current), new })
            }
        }
    }

    /// # Safety
    ///
    /// As `rcu::Atomic::take`.
    pub unsafe fn take(&mut self) -> Option<Owned<T>> {
        let node = Self::shared(self.pointer.swap(ptr::null_mut()));
        // SAFETY: the caller's contract.
        (!node.is_null()).then(|| unsafe { node.into_owned() })
    }
}

/// `rcu::Pointer`.
pub trait Pointer<T> {
    fn into_raw(self) -> *mut ();
}

impl<T> Pointer<T> for Owned<T> {
    fn into_raw(self) -> *mut () {
        Box::into_raw(self.into_box()).cast()
    }
}

impl<T> Pointer<T> for Shared<'_, T> {
    fn into_raw(self) -> *mut () {
        self.as_ptr().cast_mut().cast()
    }
}

/// `percpu::Counter`: a number, which orders nothing.
pub struct Counter<T>(core::sync::atomic::AtomicIsize, PhantomData<T>);

impl Counter<isize> {
    pub fn new() -> Self {
        Self(core::sync::atomic::AtomicIsize::new(0), PhantomData)
    }

    pub fn add(&self, by: isize) {
        self.0.fetch_add(by, core::sync::atomic::Ordering::Relaxed);
    }

    pub fn get(&self) -> isize {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }
}

/// `lock::Mutex`.
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}
