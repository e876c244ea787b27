//! Tries kinds of memory: requests it, writes to it, and checks what the kernel provided.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fullbore_linux::{MOST_HUGE, Pages, huge_page_size};
use rustix::fs::{MemfdFlags, memfd_create};

use super::attempt::{BYTES, Stop, at, compare, io_at, not_tried, pattern};
use crate::backed_by::{BackedBy, backed_by};
use fullbore_host::size;

/// Allocates two huge pages, writes to all of both, reads them back, and checks their size.
pub(super) fn huge_pages() -> Result<String, Stop> {
    let page = huge_page_size().unwrap_or(2 << 20);
    // Two pages of 512 MiB would be more memory than many machines have.
    if page > MOST_HUGE {
        return Err(not_tried(format!(
            "a huge page has {} here, and fullbore asks for none above {}",
            size::format(page as u64),
            size::format(MOST_HUGE as u64)
        )));
    }
    let mut pages = Pages::huge(2 * page)?;
    let sent = pattern(pages.len());
    pages.copy_from_slice(&sent);
    compare(&sent, &pages)?;
    match backed_by(pages.as_ptr_range()) {
        backed @ BackedBy::Known { huge, .. } if backed.is_huge() => {
            Ok(format!("{} on huge pages", size::format(huge)))
        }
        BackedBy::Known { huge, base, .. } => {
            let (huge, base) = (size::format(huge), size::format(base));
            let said = format!("the kernel gave {huge} on huge pages and {base} on base pages");
            Err(Stop::seen("MADV_HUGEPAGE", said))
        }
        BackedBy::Unknown(reason) => Err(not_tried(format!(
            "cannot determine which pages back memory: {reason}"
        ))),
    }
}

pub(super) fn memfd() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let file = memfd_create("fullbore-doctor", MemfdFlags::CLOEXEC);
    let file = File::from(file.map_err(at("memfd_create"))?);
    file.write_all_at(&sent, 0).map_err(io_at("write"))?;
    let mut came = vec![0; BYTES];
    file.read_exact_at(&mut came, 0).map_err(io_at("read"))?;
    compare(&sent, &came)?;
    Ok(format!("{BYTES} bytes written and read"))
}
