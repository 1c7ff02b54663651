//! Features of an interface, by the names that ethtool(8) has for them: `linux/ethtool.h`.

use std::io;

use super::Interface;

const GSSET_INFO: u32 = 0x37;
const GSTRINGS: u32 = 0x1b;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;
/// `ETH_SS_FEATURES`: the set of strings that has their names, each in so many bytes (`ETH_GSTRING_LEN`).
const NAMES: u32 = 4;
const NAME: usize = 32;
/// Features are bits of so many words.
const WORDS: usize = 2;

/// `struct ethtool_sset_info`, for one set.
#[repr(C)]
struct Count {
    command: u32,
    reserved: u32,
    sets: u64,
    count: u32,
}

/// `struct ethtool_gstrings`, in front of the strings.
#[repr(C)]
struct Names {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; NAME]; WORDS * 32],
}

/// `struct ethtool_gfeatures`: of each word those that are available, requested, active, and never changed.
#[repr(C)]
struct State {
    command: u32,
    words: u32,
    features: [[u32; 4]; WORDS],
}

/// `struct ethtool_sfeatures`: of each word those that are meant, and those of them that are to be on.
#[repr(C)]
struct Wanted {
    command: u32,
    words: u32,
    features: [[u32; 2]; WORDS],
}

impl Interface {
    /// Whether a feature is on.
    pub(super) fn feature(&self, name: &str) -> io::Result<bool> {
        let (word, bit) = self.feature_bit(name)?;
        let mut state = State { command: GFEATURES, words: WORDS as u32, features: [[0; 4]; WORDS] };
        // SAFETY: room for as many words as it says.
        unsafe { self.ethtool_with(&raw mut state) }?;
        Ok(state.features.get(word).is_some_and(|[_, _, active, _]| active & bit != 0))
    }

    /// Changes that, where it is different.
    pub(super) fn set_feature(&self, name: &str, on: bool) -> io::Result<()> {
        if self.feature(name)? == on {
            return Ok(());
        }
        let (word, bit) = self.feature_bit(name)?;
        let mut wanted = Wanted { command: SFEATURES, words: WORDS as u32, features: [[0; 2]; WORDS] };
        if let Some(word) = wanted.features.get_mut(word) {
            *word = [bit, if on { bit } else { 0 }];
        }
        // SAFETY: as many words as it says; it is only read.
        unsafe { self.ethtool_with(&raw mut wanted) }
    }

    /// The word and the bit of a feature, whose numbers differ from kernel to kernel.
    fn feature_bit(&self, name: &str) -> io::Result<(usize, u32)> {
        let mut count = Count { command: GSSET_INFO, reserved: 0, sets: 1 << NAMES, count: 0 };
        // SAFETY: room for the count of the one set that is asked for.
        unsafe { self.ethtool_with(&raw mut count) }?;
        let mut all = Names { command: GSTRINGS, set: NAMES, count: count.count, names: [[0; NAME]; WORDS * 32] };
        // The kernel writes as many as it has.
        if count.count as usize > all.names.len() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // SAFETY: room for so many strings.
        unsafe { self.ethtool_with(&raw mut all) }?;
        let is_it = |bytes: &[u8; NAME]| bytes.split(|byte| *byte == 0).next() == Some(name.as_bytes());
        let number = all.names.iter().position(is_it).ok_or(io::ErrorKind::Unsupported)?;
        Ok((number / 32, 1 << (number % 32)))
    }

    /// Asks the interface's driver something.
    ///
    /// # Safety
    ///
    /// `data` is one of the structures of `linux/ethtool.h`, with room for all that the kernel writes for its command.
    pub(super) unsafe fn ethtool_with<T>(&self, data: *mut T) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = data.cast();
        self.ioctl(libc::SIOCETHTOOL, &mut request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_names() {
        let lo = Interface::find("lo").unwrap();
        assert!(lo.feature("loopback").unwrap());
        assert!(!lo.feature("rx-all").unwrap());
        assert_eq!(lo.feature("no-such-feature").unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
