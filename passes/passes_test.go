package passes

import (
	"bytes"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/cloudflare/circl/group"
	"github.com/cloudflare/circl/oprf"

	"github.com/piecelease/fetcher/internal/rig"
)

func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// now is inside an epoch, not at its edge.
var now = time.Unix(100*EpochDays*86400+86400*20, 0)

func newKey(t testing.TB, size Size, seed byte) *PrivateKey {
	return must[*PrivateKey](t)(NewKey(size, EpochAt(now), rand.NewChaCha8([32]byte{seed})))
}

// issued returns n passes for a depot.
func issued(t testing.TB, k *PrivateKey, depot string, n int, seed Seed) []Pass {
	t.Helper()
	p := must[*Pending](t)(Prepare(&k.PublicKey, depot, n, seed))
	return must[[]Pass](t)(p.Finish(must[[]byte](t)(k.Sign(p.Request, crand.Reader))))
}

type hexes []byte

func (h *hexes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

type vector struct {
	Secret, Public              hexes
	Challenge                   hexes
	Nonce, Blind, Token         hexes
	Nonces, Blinds, Tokens      []hexes
	TokenRequest, TokenResponse hexes
}

func (v *vector) UnmarshalJSON(b []byte) error {
	var m struct {
		SkS            hexes   `json:"skS"`
		PkS            hexes   `json:"pkS"`
		TokenChallenge hexes   `json:"token_challenge"`
		Nonce          hexes   `json:"nonce"`
		Blind          hexes   `json:"blind"`
		Token          hexes   `json:"token"`
		Nonces         []hexes `json:"nonces"`
		Blinds         []hexes `json:"blinds"`
		Tokens         []hexes `json:"tokens"`
		TokenRequest   hexes   `json:"token_request"`
		TokenResponse  hexes   `json:"token_response"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*v = vector{m.SkS, m.PkS, m.TokenChallenge, m.Nonce, m.Blind, m.Token, m.Nonces, m.Blinds, m.Tokens, m.TokenRequest, m.TokenResponse}
	return nil
}

func vectors(t *testing.T, name string) []vector {
	var all struct{ Vectors []vector }
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile("testdata/"+name)), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Vectors) == 0 {
		t.Fatal("no vectors in", name)
	}
	return all.Vectors
}

// The published vectors of batched tokens, type 5: the messages, the result, and the passes. A single request
// is a batch of one without the count before it.
func TestPublishedVectors(t *testing.T) {
	play := func(t *testing.T, v vector, single bool) {
		key := must[*PrivateKey](t)(ParsePrivate(1, EpochAt(now), v.Secret))
		if !bytes.Equal(key.raw[:], v.Public) || !bytes.Equal(key.Secret(), v.Secret) {
			t.Fatalf("the public key is %x, want %x", key.raw, v.Public)
		}
		var nonces [][nonceBytes]byte
		var blinds []oprf.Blind
		for i := range v.Nonces {
			nonces = append(nonces, [nonceBytes]byte(v.Nonces[i]))
			b := group.Ristretto255.NewScalar()
			if err := b.UnmarshalBinary(v.Blinds[i]); err != nil {
				t.Fatal(err)
			}
			blinds = append(blinds, b)
		}
		p := must[*Pending](t)(prepare(&key.PublicKey, sha256.Sum256(v.Challenge), nonces, blinds))
		request, response := p.Request, v.TokenResponse
		if single {
			if request[3] != elementBytes {
				t.Fatalf("one element has the length %d", request[3])
			}
			request = append(bytes.Clone(request[:3]), request[4:]...)
			response = append([]byte{elementBytes}, response...)
		}
		if !bytes.Equal(request, v.TokenRequest) {
			t.Errorf("the request is\n%x, want\n%x", request, v.TokenRequest)
		}
		signed := must[[]byte](t)(key.Sign(p.Request, crand.Reader))
		if n := len(signed) - proofBytes; !bytes.Equal(signed[:n], response[:n]) {
			t.Errorf("signed:\n%x, want\n%x", signed[:n], response[:n])
		}
		for _, r := range [][]byte{response, signed} {
			for i, pass := range must[[]Pass](t)(p.Finish(r)) {
				if !bytes.Equal(pass.Token(), v.Tokens[i]) {
					t.Errorf("pass %d is\n%x, want\n%x", i, pass.Token(), v.Tokens[i])
				}
				if back := must[Pass](t)(ParseToken(pass.Token())); back != pass {
					t.Errorf("read back: %+v", back)
				}
			}
		}
	}
	for _, v := range vectors(t, "privacy-pass-type5.json") {
		v.Nonces, v.Blinds, v.Tokens = []hexes{v.Nonce}, []hexes{v.Blind}, []hexes{v.Token}
		play(t, v, true)
	}
	for _, v := range vectors(t, "privacy-pass-type5-batch.json") {
		play(t, v, false)
	}
}

func TestAPassIsGoodOnceThereForThat(t *testing.T) {
	key, other := newKey(t, 64, 1), newKey(t, 64, 2)
	passes := issued(t, key, "depot", 3, Seed{7})
	b := Binding{Depot: "depot", Account: "account", Share: "share", Until: now.Add(time.Hour), Request: RequestID{1}}
	s := passes[0].Spend(b)
	if err := key.Check(s, b, now); err != nil {
		t.Fatal(err)
	}
	if err := key.Check(s, b, key.Epoch.End().Add(-time.Second)); err != nil {
		t.Errorf("on its last day: %v", err)
	}
	for what, c := range map[string]struct {
		key    *PrivateKey
		change func(*Spend, *Binding)
		at     time.Time
		want   error
	}{
		"another key":         {other, func(*Spend, *Binding) {}, now, ErrKey},
		"after its last day":  {key, func(*Spend, *Binding) {}, key.Epoch.End(), ErrKey},
		"before it was made":  {key, func(*Spend, *Binding) {}, now.AddDate(0, 0, -EpochDays), ErrKey},
		"another depot":       {key, func(_ *Spend, b *Binding) { b.Depot = "depot 2" }, now, ErrForeign},
		"another account":     {key, func(_ *Spend, b *Binding) { b.Account += "x" }, now, ErrForged},
		"another share":       {key, func(_ *Spend, b *Binding) { b.Share += "x" }, now, ErrForged},
		"another time":        {key, func(_ *Spend, b *Binding) { b.Until = b.Until.Add(time.Second) }, now, ErrForged},
		"another request":     {key, func(_ *Spend, b *Binding) { b.Request[15]++ }, now, ErrForged},
		"another batch":       {key, func(_ *Spend, b *Binding) { b.Batch[0]++ }, now, ErrForged},
		"account for a share": {key, func(_ *Spend, b *Binding) { b.Account, b.Share = "accountshare", "" }, now, ErrForged},
		"another nonce":       {key, func(s *Spend, _ *Binding) { s.Nonce = passes[1].Nonce }, now, ErrForged},
		"another challenge":   {key, func(s *Spend, _ *Binding) { s.Challenge[0]++ }, now, ErrForeign},
		"a wrong proof":       {key, func(s *Spend, _ *Binding) { s.Proof[31]++ }, now, ErrForged},
		"a key of its own":    {other, func(s *Spend, _ *Binding) { s.Key = other.ID() }, now, ErrForged},
	} {
		s, b := s, b
		c.change(&s, &b)
		if err := c.key.Check(s, b, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// Nothing of what was sent or answered occurs in a pass or in a spend of it, and two wallets
// with the same request do not send the same bytes.
func TestWhatIsSpentWasNeverSeen(t *testing.T) {
	key := newKey(t, 1, 1)
	p := must[*Pending](t)(Prepare(&key.PublicKey, "depot", 5, Seed{1}))
	response := must[[]byte](t)(key.Sign(p.Request, crand.Reader))
	seen := append(bytes.Clone(p.Request), response...)
	for _, pass := range must[[]Pass](t)(p.Finish(response)) {
		s := pass.Spend(Binding{Depot: "depot"})
		for _, secret := range [][]byte{pass.Nonce[:], pass.Code[:32], pass.Code[32:], s.Proof[:]} {
			if bytes.Contains(seen, secret) {
				t.Errorf("%x was seen at the issuer", secret)
			}
		}
		if bytes.Contains(AppendSpends(nil, []Spend{s}), pass.Code[:16]) {
			t.Error("a spend shows the pass")
		}
	}
	q := must[*Pending](t)(Prepare(&key.PublicKey, "depot", 5, Seed{2}))
	for at := 5; at < len(p.Request); at += elementBytes {
		if bytes.Contains(q.Request, p.Request[at:at+elementBytes]) {
			t.Error("two seeds ask for the same")
		}
	}
}

func TestTheSameSeedAsksTheSame(t *testing.T) {
	rig.Slow(t)
	key := newKey(t, 1, 1)
	a := must[*Pending](t)(Prepare(&key.PublicKey, "depot", MaxBatch, Seed{1}))
	b := must[*Pending](t)(Prepare(&key.PublicKey, "depot", MaxBatch, Seed{1}))
	if !bytes.Equal(a.Request, b.Request) {
		t.Error("the request differs")
	}
	// A second response to the same request is good too: as after a crash.
	first, second := must[[]byte](t)(key.Sign(a.Request, crand.Reader)), must[[]byte](t)(key.Sign(b.Request, crand.Reader))
	if x, y := must[[]Pass](t)(a.Finish(second)), must[[]Pass](t)(b.Finish(first)); x[0] != y[0] || x[MaxBatch-1] != y[MaxBatch-1] {
		t.Error("the passes differ")
	}
	for _, n := range []int{-1, 0, MaxBatch + 1} {
		if _, err := Prepare(&key.PublicKey, "depot", n, Seed{}); !errors.Is(err, ErrMessage) {
			t.Errorf("%d passes: %v", n, err)
		}
	}
}

func TestAnIssuerCannotTellItsPassesApart(t *testing.T) {
	key, other := newKey(t, 1, 1), newKey(t, 1, 2)
	p := must[*Pending](t)(Prepare(&key.PublicKey, "depot", 2, Seed{1}))
	// The issuer signs with a key for this wallet alone.
	elements, _, err := parseElements(p.Request[3:])
	if err != nil {
		t.Fatal(err)
	}
	request := must[[]byte](t)(appendElements([]byte{0, tokenType, other.Tag()}, elements))
	if _, err := p.Finish(must[[]byte](t)(other.Sign(request, crand.Reader))); !errors.Is(err, ErrProof) {
		t.Errorf("signed with another key: %v", err)
	}
	// The issuer lists different keys for this wallet.
	listed := Listing{&key.PublicKey}
	if err := listed.Agrees(Listing{&other.PublicKey}); !errors.Is(err, ErrTagged) {
		t.Errorf("other keys: %v", err)
	}
	later, err := ParsePublic(1, key.Epoch+1, other.raw[:])
	if err != nil {
		t.Fatal(err)
	}
	for _, same := range []Listing{nil, must[Listing](t)(ParseListing(listed.Append(nil))), {later}} {
		if err := listed.Agrees(same); err != nil {
			t.Error(err)
		}
	}
	if listed.Key(key.ID()) != &key.PublicKey || listed.Key(other.ID()) != nil {
		t.Error("keys by ID")
	}
	if listed.Signing(1, now) != &key.PublicKey || listed.Signing(1, now.AddDate(0, 0, EpochDays)) != nil || listed.Signing(64, now) != nil {
		t.Error("keys by size")
	}
}

func TestEpochs(t *testing.T) {
	e := EpochAt(now)
	edge := time.Unix(101*EpochDays*86400, 0)
	if e != 100 || EpochAt(edge) != 101 || EpochAt(edge.Add(-time.Nanosecond)) != 100 || EpochAt(time.Unix(-5, 0)) != 0 {
		t.Error("epochs")
	}
	if !e.Signs(now) || e.Signs(edge) || !e.Alive(edge) || e.Alive(e.End()) || (e + 1).Alive(now) || !e.End().Equal(edge.AddDate(0, 0, EpochDays)) {
		t.Error("alive")
	}
	if e.Forget().Sub(e.End()) != 31*24*time.Hour {
		t.Error("forget")
	}
}

// An error names what is wrong in a message; nothing is signed.
func TestBadMessages(t *testing.T) {
	key := newKey(t, 1, 1)
	p := must[*Pending](t)(Prepare(&key.PublicKey, "depot", 2, Seed{1}))
	good := must[[]byte](t)(key.Sign(p.Request, crand.Reader))
	identity := make([]byte, elementBytes)
	edit := func(b []byte, f func([]byte) []byte) []byte { return f(bytes.Clone(b)) }
	for what, request := range map[string][]byte{
		"empty":         {},
		"no elements":   p.Request[:3],
		"another type":  edit(p.Request, func(b []byte) []byte { b[1] = 1; return b }),
		"another key":   edit(p.Request, func(b []byte) []byte { b[2]++; return b }),
		"cut":           p.Request[:len(p.Request)-1],
		"more":          append(bytes.Clone(p.Request), 0),
		"none":          append(bytes.Clone(p.Request[:3]), 0, 0),
		"the identity":  append(append(bytes.Clone(p.Request[:3]), elementBytes), identity...),
		"not on it":     edit(p.Request, func(b []byte) []byte { b[len(b)-1] |= 0x80; return b }),
		"a long length": append(bytes.Clone(p.Request[:3]), 0x80, 0, 0, 0, 0),
		"too many":      append(append(bytes.Clone(p.Request[:3]), 0x7f, 0xe0), make([]byte, 0x3fe0)...),
	} {
		if _, err := key.Sign(request, crand.Reader); !errors.Is(err, ErrMessage) {
			t.Errorf("a request: %s: %v", what, err)
		}
	}
	for what, response := range map[string][]byte{
		"empty":         {},
		"no proof":      good[:len(good)-proofBytes],
		"cut":           good[:len(good)-1],
		"more":          append(bytes.Clone(good), 0),
		"one too few":   append(must[[]byte](t)(appendElements(nil, nil)), good[len(good)-proofBytes:]...),
		"the identity":  append(append([]byte{elementBytes}, identity...), good[len(good)-proofBytes:]...),
		"another count": must[[]byte](t)(key.Sign(must[*Pending](t)(Prepare(&key.PublicKey, "depot", 1, Seed{1})).Request, crand.Reader)),
	} {
		if _, err := p.Finish(response); !errors.Is(err, ErrMessage) {
			t.Errorf("a response: %s: %v", what, err)
		}
	}
	if _, err := p.Finish(edit(good, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })); !errors.Is(err, ErrProof) {
		t.Errorf("a wrong proof: %v", err)
	}
	swapped := edit(good, func(b []byte) []byte {
		copy(b[2:], good[2+elementBytes:2+2*elementBytes])
		copy(b[2+elementBytes:], good[2:2+elementBytes])
		return b
	})
	if _, err := p.Finish(swapped); !errors.Is(err, ErrProof) {
		t.Errorf("swapped: %v", err)
	}
	for what, b := range map[string][]byte{
		"size":     {0, 2, 0, 1},
		"cut":      Listing{&key.PublicKey}.Append(nil)[1:],
		"twice":    Listing{&key.PublicKey, &key.PublicKey}.Append(nil),
		"one of 2": Listing{&key.PublicKey, {Size: 64, Epoch: key.Epoch, raw: key.raw}}.Append(nil),
		"too many": bytes.Repeat(Listing{&key.PublicKey}.Append(nil), MaxListing+1),
		"identity": append([]byte{0, 1, 0, 0}, identity...),
		"size 2":   append([]byte{0, 2, 0, 0}, key.raw[:]...),
	} {
		if _, err := ParseListing(b); !errors.Is(err, ErrMessage) {
			t.Errorf("a listing: %s: %v", what, err)
		}
	}
	s := issued(t, key, "depot", 1, Seed{})[0].Spend(Binding{})
	for what, b := range map[string][]byte{
		"cut":      AppendSpends(nil, []Spend{s})[1:],
		"twice":    AppendSpends(nil, []Spend{s, s}),
		"too many": make([]byte, (MaxSpends+1)*spendBytes),
	} {
		if _, err := ParseSpends(b); !errors.Is(err, ErrMessage) {
			t.Errorf("spends: %s: %v", what, err)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 31), make([]byte, 32)} {
		if _, err := ParsePrivate(1, 0, b); !errors.Is(err, ErrMessage) {
			t.Errorf("a private key %x: %v", b, err)
		}
	}
	if _, err := ParseToken(make([]byte, 162)); !errors.Is(err, ErrMessage) {
		t.Errorf("a token: %v", err)
	}
}

func FuzzMessages(f *testing.F) {
	key := newKey(f, 1, 1)
	p := must[*Pending](f)(Prepare(&key.PublicKey, "depot", 2, Seed{1}))
	response := must[[]byte](f)(key.Sign(p.Request, crand.Reader))
	pass := must[[]Pass](f)(p.Finish(response))[0]
	f.Add(p.Request)
	f.Add(response)
	f.Add(Listing{&key.PublicKey}.Append(nil))
	f.Add(AppendSpends(nil, []Spend{pass.Spend(Binding{})}))
	f.Add(pass.Token())
	f.Fuzz(func(t *testing.T, b []byte) {
		key.Sign(b, crand.Reader)
		if passes, err := p.Finish(b); err == nil && len(passes) != 2 {
			t.Errorf("%d passes", len(passes))
		}
		if l, err := ParseListing(b); err == nil && !bytes.Equal(l.Append(nil), b) {
			t.Errorf("a listing comes back as %x", l.Append(nil))
		}
		if s, err := ParseSpends(b); err == nil && !bytes.Equal(AppendSpends(nil, s), b) {
			t.Errorf("spends come back as %x", AppendSpends(nil, s))
		}
		if p, err := ParseToken(b); err == nil && !bytes.Equal(p.Token(), b) {
			t.Errorf("a pass comes back as %x", p.Token())
		}
	})
}

func BenchmarkSign(b *testing.B) {
	key := newKey(b, 1, 1)
	p := must[*Pending](b)(Prepare(&key.PublicKey, "depot", MaxBatch, Seed{1}))
	for b.Loop() {
		must[[]byte](b)(key.Sign(p.Request, crand.Reader))
	}
	b.ReportMetric(float64(b.N)*MaxBatch/b.Elapsed().Seconds(), "passes/s")
}

func BenchmarkCheck(b *testing.B) {
	key := newKey(b, 1, 1)
	bind := Binding{Depot: "depot"}
	s := issued(b, key, "depot", 1, Seed{1})[0].Spend(bind)
	for b.Loop() {
		if err := key.Check(s, bind, now); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "passes/s")
}
