package rounds

// DecodeRecord and DecodeTarget are for the fuzz tests.
var (
	DecodeRecord = decodeRecord
	DecodeTarget = decodeTarget
)

// Encode returns the record as it is stored.
func (r Record) Encode() []byte { return r.encode() }
