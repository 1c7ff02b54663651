//! How packets and bytes spread over time: [`Series`].

/// Packets and bytes in equal pieces of time.
///
/// Pieces are a power of two of [`Series::FINEST`] nanoseconds long, counted from a common zero; when there would be more than
/// [`Series::PIECES`] of them, they are made twice as long. Only pieces in which something came take memory: 16 bytes each.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// In rising order of their numbers.
    pieces: Vec<Piece>,
    /// How many times pieces have been made twice as long.
    doubled: u32,
}

/// A piece of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    number: u32,
    packets: u32,
    bytes: u64,
}

impl Series {
    /// The shortest piece, ns.
    pub const FINEST: u64 = 1 << 16;
    /// Pieces at most.
    pub const PIECES: u32 = 256;

    /// Adds a packet of `bytes` at `nanos` after zero. What comes before zero is counted at zero.
    #[inline]
    pub fn add(&mut self, nanos: i64, bytes: u32) {
        let nanos = u64::try_from(nanos).unwrap_or(0);
        let mut number = (nanos / Series::FINEST) >> self.doubled;
        while number >= u64::from(Series::PIECES) {
            self.double();
            number >>= 1;
        }
        self.put(Piece { number: number as u32, packets: 1, bytes: bytes.into() });
    }

    /// Takes a packet back that was added with the same arguments.
    pub fn take_back(&mut self, nanos: i64, bytes: u32) {
        let number = (u64::try_from(nanos).unwrap_or(0) / Series::FINEST) >> self.doubled;
        let Ok(at) = self.pieces.binary_search_by_key(&number, |piece| piece.number.into()) else { return };
        if let Some(piece) = self.pieces.get_mut(at) {
            piece.packets = piece.packets.saturating_sub(1);
            piece.bytes = piece.bytes.saturating_sub(bytes.into());
            if piece.packets == 0 {
                self.pieces.remove(at);
            }
        }
    }

    /// Adds all that `other` has.
    pub fn merge(&mut self, other: &Series) {
        while self.doubled < other.doubled {
            self.double();
        }
        let halved = self.doubled - other.doubled;
        for piece in &other.pieces {
            self.put(Piece { number: piece.number.checked_shr(halved).unwrap_or(0), ..*piece });
        }
    }

    #[inline]
    fn put(&mut self, piece: Piece) {
        // Nearly always the last one.
        if let Some(last) = self.pieces.last_mut().filter(|last| last.number == piece.number) {
            last.join(piece);
            return;
        }
        match self.pieces.binary_search_by_key(&piece.number, |piece| piece.number) {
            Ok(at) => self.pieces.get_mut(at).into_iter().for_each(|known| known.join(piece)),
            Err(at) => self.pieces.insert(at, piece),
        }
    }

    #[cold]
    fn double(&mut self) {
        self.doubled += 1;
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces.drain(..).map(|piece| Piece { number: piece.number / 2, ..piece }) {
            match pieces.last_mut().filter(|last| last.number == piece.number) {
                Some(last) => last.join(piece),
                None => pieces.push(piece),
            }
        }
        self.pieces = pieces;
    }

    /// How long each piece is, ns.
    pub fn width(&self) -> u64 {
        Series::FINEST << self.doubled
    }

    /// The pieces in which something came: the number of each from zero, packets, bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        self.pieces.iter().map(|piece| (piece.number, piece.packets, piece.bytes))
    }
}

impl Piece {
    fn join(&mut self, other: Piece) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes += other.bytes;
    }
}
