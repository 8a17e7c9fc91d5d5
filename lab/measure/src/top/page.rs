//! Reads a page of statistics: its layout is described by the library's `statistics_page`.
//!
//! The page is another process's, and may contain anything. It is read by `pread(2)`, which returns an error where a
//! mapping would be a signal. All numbers in it are checked before they are used; a text is at most [`LARGEST_SLOT`]
//! long.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result, bail, ensure};

const MAGIC: &[u8; 8] = b"stillpnt";
/// The layout that is known here.
const LAYOUT: u32 = 1;
/// Where the number of the last sample is, behind magic, layout, size of a slot, and version.
const NUMBER: u64 = 32;
const HEADER: usize = 40;
/// Where the first slot begins.
const SLOTS: u64 = 4096;
/// No page of this layout has larger ones.
const LARGEST_SLOT: u64 = 256 << 10;

/// Samples are taken some times a second, and read in microseconds.
const ATTEMPTS: u32 = 100;

/// What a page is read from.
pub(super) trait Source {
    /// Fills `buffer` with what begins at `offset`.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

/// A complete sample.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) number: u64,
    /// JSON, or not: the process has written it.
    pub(super) text: String,
}

/// Reads the last complete sample.
pub(super) fn read(page: &impl Source) -> Result<Sample> {
    for _ in 0..ATTEMPTS {
        let mut header = [0; HEADER];
        page.read_at(&mut header, 0).context("the page of statistics is too short")?;
        let slot = slot_size(&header)?;
        let number = u64::from_ne_bytes(at(&header, NUMBER as usize));
        ensure!(number != 0, "the page of statistics has no sample");
        let begin = SLOTS + number % 2 * slot;
        let length = read_number(page, begin)?;
        // If the slot has changed since, so has the number.
        let fits = length <= slot - 8;
        let mut text = vec![0; if fits { length as usize } else { 0 }];
        page.read_at(&mut text, begin + 8).context("the page of statistics is too short")?;
        if read_number(page, NUMBER)? == number {
            ensure!(fits, "a sample of {length} bytes does not fit into the page of statistics");
            let text = String::from_utf8(text).context("the sample is not text")?;
            return Ok(Sample { number, text });
        }
    }
    bail!("the page of statistics changes all the time: no sample can be read");
}

/// Returns the size of a slot, if the header is one that is known here.
fn slot_size(header: &[u8; HEADER]) -> Result<u64> {
    ensure!(&header[..8] == MAGIC, "this is no page of statistics, though its name says so");
    let layout = u32::from_ne_bytes(at(header, 8));
    if layout != LAYOUT {
        let version: [u8; 16] = at(header, 16);
        let version: String =
            version.iter().take_while(|byte| byte.is_ascii_graphic()).map(|&byte| char::from(byte)).collect();
        bail!(
            "the page of statistics has layout {layout}, and this command reads layout {LAYOUT}: use the command of \
             stillpoint {}",
            if version.is_empty() { "as old or new as the process" } else { &version }
        );
    }
    let slot = u64::from(u32::from_ne_bytes(at(header, 12)));
    ensure!(
        slot.is_multiple_of(8) && (8..=LARGEST_SLOT).contains(&slot),
        "the page of statistics is damaged: a slot of {slot} bytes"
    );
    Ok(slot)
}

fn read_number(page: &impl Source, offset: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    page.read_at(&mut bytes, offset).context("the page of statistics is too short")?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns the bytes of the header from `offset` on.
fn at<const N: usize>(header: &[u8; HEADER], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| header[offset + index])
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    const SLOT: u32 = 64;

    impl Source for Vec<u8> {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            let begin = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
            let bytes = begin.checked_add(buffer.len()).and_then(|end| self.get(begin..end));
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    /// A page with this header, and `text` in the slot of the sample.
    pub(in crate::top) fn page(layout: u32, slot: u32, number: u64, length: u64, text: &[u8]) -> Vec<u8> {
        let mut page = vec![0; SLOTS as usize + 2 * SLOT as usize];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, MAGIC);
        put(8, &layout.to_ne_bytes());
        put(12, &slot.to_ne_bytes());
        put(16, b"7.8.9\x1b[2J");
        put(NUMBER as usize, &number.to_ne_bytes());
        let begin = SLOTS as usize + (number % 2) as usize * SLOT as usize;
        put(begin, &length.to_ne_bytes());
        put(begin + 8, text);
        page
    }

    fn refusal(page: &impl Source) -> String {
        read(page).expect_err("refused").to_string()
    }

    #[test]
    fn page_with_a_sample_is_read_from_its_slot() {
        for number in [1, 2, 7, u64::MAX] {
            let sample = read(&page(1, SLOT, number, 2, b"{}")).expect("a page");
            assert_eq!(sample, Sample { number, text: "{}".into() });
        }
        let full = [b' '; SLOT as usize - 8];
        assert_eq!(read(&page(1, SLOT, 1, full.len() as u64, &full)).expect("a page").text.len(), full.len());
    }

    #[test]
    fn page_of_another_layout_is_refused_with_the_version_of_its_library() {
        let refused = refusal(&page(2, SLOT, 1, 2, b"{}"));
        assert!(refused.contains("has layout 2, and this command reads layout 1"), "{refused}");
        assert!(refused.ends_with("of stillpoint 7.8.9"), "{refused:?}");
    }

    #[test]
    fn damaged_page_is_refused_with_a_reason() {
        assert_eq!(refusal(&Vec::new()), "the page of statistics is too short");
        assert_eq!(refusal(&vec![0; 8192]), "this is no page of statistics, though its name says so");
        assert_eq!(refusal(&page(1, SLOT, 0, 2, b"{}")), "the page of statistics has no sample");
        for slot in [0, 4, 12, 1 << 20, u32::MAX - 7] {
            assert!(refusal(&page(1, slot, 1, 2, b"{}")).contains("is damaged"), "{slot}");
        }
        assert_eq!(refusal(&page(1, 128, 1, 2, b"{}")), "the page of statistics is too short");
        for length in [u64::from(SLOT) - 7, u64::MAX, 1 << 63] {
            assert!(refusal(&page(1, SLOT, 1, length, b"{}")).contains("does not fit"), "{length}");
        }
        assert_eq!(refusal(&page(1, SLOT, 1, 2, &[0xff, 0xfe])), "the sample is not text");
        let mut short = page(1, SLOT, 1, 2, b"{}");
        for length in (0..short.len()).rev() {
            short.truncate(length);
            _ = read(&short).map(|sample| assert_eq!(sample.text, "{}"));
        }
    }

    /// A page whose process writes a sample after each read of it.
    struct Changing {
        reads: Cell<u64>,
        until: u64,
    }

    impl Source for Changing {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            let reads = self.reads.replace(self.reads.get() + 1).min(self.until);
            page(1, SLOT, 1 + reads, 2, b"{}").read_at(buffer, offset)
        }
    }

    #[test]
    fn page_that_changes_while_it_is_read_is_read_again() {
        let page = |until| Changing { reads: Cell::new(0), until };
        assert_eq!(read(&page(50)).expect("it rests at last").number, 51);
        assert!(refusal(&page(u64::MAX)).contains("changes all the time"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            header in prop::collection::vec(any::<u8>(), 0..=HEADER),
            rest in prop::collection::vec(any::<u8>(), 0..300),
            keeps_magic: bool,
        ) {
            let mut page = page(1, SLOT, 1, 2, b"{}");
            let from = if keeps_magic { 12 } else { 0 };
            let header = &header[..header.len().min(HEADER - from)];
            page[from..from + header.len()].copy_from_slice(header);
            page.truncate(SLOTS as usize);
            page.extend(rest);
            if let Ok(sample) = read(&page) {
                prop_assert!(sample.text.len() as u64 <= LARGEST_SLOT);
            }
        }
    }
}
