package spoken

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha512"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxTicket is the greatest length of a ticket that a code carries; MaxMessage is that of a message
// of the exchange. Both are in bytes.
const (
	MaxTicket  = 4_096
	MaxMessage = MaxTicket + ticketUnit + 16 + sha512.Size
)

// ticketUnit is what the length of a sealed ticket is a multiple of, so that it tells little.
const ticketUnit = 512

// sessionSize is the length of the fetcher's session ID.
const sessionSize = 16

// Why an exchange failed.
var (
	ErrWords   = errors.New("the words are not the same on both sides")
	ErrEnded   = errors.New("the other side ended the exchange")
	ErrStrange = errors.New("the other side breaks the protocol of codes")
)

// side is what both sides have in common.
type side struct {
	code    Code
	name    string // of this side: its peer ID
	other   string // the peer ID of the other side; "" before it has spoken
	mine    half
	session []byte
	key     []byte
	step    int
}

// channel is the name of the channel in the generator.
func (s *side) channel() []byte { return []byte("fetcher code 1 " + strconv.Itoa(s.code.Channel)) }

// begin makes this side's half.
func (s *side) begin(chance *[64]byte) {
	s.mine = newHalf(generator([]byte(s.code.secret()), s.channel(), s.session), chance)
}

// heard checks the sender of a message, and that there is one.
func (s *side) heard(body []byte, from string) error {
	if s.other == "" {
		s.other = from
	}
	switch {
	case from == "" || from != s.other || from == s.name:
		return fmt.Errorf("%w: its messages do not all come from one peer, or they come from this node", ErrStrange)
	case len(body) == 0:
		return ErrEnded
	}
	return nil
}

// Fetcher is the side that has been told the code.
type Fetcher struct {
	side
	theirs party
}

// NewFetcher returns the side of the peer self, and its first message. chance is random.
func NewFetcher(c Code, self string, chance [64 + sessionSize]byte) (f *Fetcher, first []byte) {
	f = &Fetcher{side: side{code: c, name: self, session: chance[64:]}}
	f.begin((*[64]byte)(chance[:64]))
	return f, append(append([]byte{}, f.session...), f.mine.public...)
}

// Hear takes a message that the beacon says comes from a peer, and returns the one to be sent, or
// the ticket. After an error nothing more is to be said but that it is over.
func (f *Fetcher) Hear(body []byte, from string) (say []byte, ticket string, err error) {
	if err := f.heard(body, from); err != nil {
		if f.step == 1 && errors.Is(err, ErrEnded) {
			return nil, "", ErrWords // which is why it did not like the proof
		}
		return nil, "", err
	}
	f.step++
	switch f.step {
	case 1:
		common, err := f.mine.with(body)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", ErrStrange, err)
		}
		a := party{f.mine.public, []byte(f.name)}
		f.theirs = party{body, []byte(from)}
		f.key = keyOf(f.session, common, a, f.theirs)
		return proofOf(f.session, f.key, a), "", nil
	case 2:
		ticket, err := f.open(body)
		return nil, ticket, err
	}
	return nil, "", ErrStrange
}

// open checks the last message, and returns the ticket in it.
func (f *Fetcher) open(body []byte) (string, error) {
	if len(body) < sha512.Size || !hmac.Equal(body[:sha512.Size], proofOf(f.session, f.key, f.theirs)) {
		return "", ErrWords
	}
	text, err := sealer(f.key).Open(nil, make([]byte, 12), body[sha512.Size:], body[:sha512.Size])
	if err != nil {
		return "", ErrStrange
	}
	return strings.TrimRight(string(text), " "), nil
}

// Sharer is the side that has made the code.
type Sharer struct {
	side
	ticket string
	chance *[64]byte
	theirs party
}

// NewSharer returns the side of the peer self, which gives a ticket of at most MaxTicket bytes
// to whoever knows the code. chance is random.
func NewSharer(c Code, self, ticket string, chance [64]byte) (*Sharer, error) {
	if len(ticket) > MaxTicket {
		return nil, fmt.Errorf("a code carries tickets of at most %d characters, and this one has %d", MaxTicket, len(ticket))
	}
	return &Sharer{side: side{code: c, name: self}, ticket: ticket, chance: &chance}, nil
}

// Hear takes a message that the beacon says comes from a peer, and returns the one to be sent; done
// says that it is the last, and holds the ticket. The code is used up by the first message. After an
// error nothing more is to be said but that it is over.
func (s *Sharer) Hear(body []byte, from string) (say []byte, done bool, err error) {
	if err := s.heard(body, from); err != nil {
		return nil, false, err
	}
	s.step++
	switch s.step {
	case 1:
		if len(body) != sessionSize+pointSize {
			return nil, false, ErrStrange
		}
		s.session = body[:sessionSize]
		s.theirs = party{body[sessionSize:], []byte(from)}
		s.begin(s.chance)
		common, err := s.mine.with(s.theirs.public)
		if err != nil {
			return nil, false, fmt.Errorf("%w: %w", ErrStrange, err)
		}
		s.key = keyOf(s.session, common, s.theirs, party{s.mine.public, []byte(s.name)})
		return s.mine.public, false, nil
	case 2:
		if !hmac.Equal(body, proofOf(s.session, s.key, s.theirs)) {
			return nil, false, ErrWords
		}
		proof := proofOf(s.session, s.key, party{s.mine.public, []byte(s.name)})
		padded := s.ticket + strings.Repeat(" ", (ticketUnit-len(s.ticket)%ticketUnit)%ticketUnit)
		return sealer(s.key).Seal(proof, make([]byte, 12), []byte(padded), proof), true, nil
	}
	return nil, false, ErrStrange
}

// sealer seals one message under a key that is used for nothing else.
func sealer(key []byte) cipher.AEAD {
	sum := sha512.Sum512(append([]byte("fetcher code 1 ticket"), key...))
	block, err := aes.NewCipher(sum[:32])
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // blocks of AES are what it wants
	}
	return aead
}
