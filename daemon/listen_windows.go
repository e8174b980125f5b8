package daemon

// ownersAlone does nothing: the folder says who may connect.
func ownersAlone(uintptr) {}
