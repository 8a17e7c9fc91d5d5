//! Where open sections of a sleepable domain began: a table of places with the number of their open sections. Only
//! with the feature `section-locations`, for stall reports.
//!
//! A place takes an entry at its first section and keeps it. Sections begin and end by an atomic add each, without a
//! lock, as signal handlers may begin sections. Sections of places that find no entry are not counted.

use core::array;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

/// The most places of a domain.
const PLACES: usize = 256;

/// See the [module](self). Its atomics are Relaxed: for reports only, and what they point to is constant.
#[derive(Debug)]
pub struct SectionSites([Site; PLACES]);

#[derive(Debug)]
struct Site {
    site: AtomicPtr<Location<'static>>,
    open: AtomicU64,
}

/// The entry of a section, if its place has one.
#[derive(Debug, Clone, Copy)]
pub struct SiteIndex(Option<u8>);

impl SectionSites {
    pub fn new() -> Self {
        Self(array::from_fn(|_| Site { site: AtomicPtr::new(ptr::null_mut()), open: AtomicU64::new(0) }))
    }

    /// Counts a section that begins at `site`.
    pub fn begin(&self, site: &'static Location<'static>) -> SiteIndex {
        let site = ptr::from_ref(site).cast_mut();
        let first = site.addr() / size_of::<Location<'_>>();
        for step in 0..PLACES {
            let index = (first + step) % PLACES;
            let place = &self.0[index];
            let mut found = place.site.load(Relaxed);
            if found.is_null() {
                found = place
                    .site
                    .compare_exchange(found, site, Relaxed, Relaxed)
                    .map_or_else(|now| now, |_| site);
            }
            if found == site {
                place.open.fetch_add(1, Relaxed);
                return SiteIndex(u8::try_from(index).ok());
            }
        }
        SiteIndex(None)
    }

    /// Counts the end of a section.
    pub fn end(&self, SiteIndex(index): SiteIndex) {
        if let Some(index) = index {
            self.0[usize::from(index)].open.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the places of open sections and their number, the most frequent first.
    pub fn open(&self) -> Vec<(&'static Location<'static>, u64)> {
        let open = |place: &Site| {
            // SAFETY: null, or made of a `'static` reference.
            let site = unsafe { place.site.load(Relaxed).as_ref() }?;
            let open = place.open.load(Relaxed);
            (open != 0).then_some((site, open))
        };
        let mut sites: Vec<_> = self.0.iter().filter_map(open).collect();
        sites.sort_by_key(|(_, open)| u64::MAX - open);
        sites
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_beyond_the_table_are_not_counted() {
        let sites = SectionSites::new();
        let places: Vec<_> = (0..PLACES + 10).map(|_| &*Box::leak(Box::new(*Location::caller()))).collect();
        let begin = || places.iter().map(|site| sites.begin(site)).collect::<Vec<_>>();
        let begun = [begin(), begin()];
        assert!(sites.open().iter().all(|(_, open)| *open == 2));
        assert_eq!(sites.open().len(), PLACES);
        begun.into_iter().flatten().for_each(|index| sites.end(index));
        assert!(sites.open().is_empty());
    }
}
