package rounds

// DecodeRecord and DecodeTarget are for the fuzz tests.
var (
	DecodeRecord = decodeRecord
	DecodeTarget = decodeTarget
)

// Encode is what the store gets.
func (r Record) Encode() []byte { return r.encode() }
