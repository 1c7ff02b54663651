//! VRFs: routes and neighbours that are apart from those of others.

/// The number of a VRF.
pub type VrfId = u16;

/// The VRF of whoever names none.
pub const DEFAULT_VRF: VrfId = 0;
