package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/store/vfs"
)

// Membership is what a machine knows about its fleet, and what a token contains.
type Membership struct {
	URL     string `json:"url"`               // of the store
	Secret  string `json:"secret"`            // known to the members
	ID      string `json:"id,omitempty"`      // of the fleet, after its secret was changed; see Fleet
	Changes int    `json:"changes,omitempty"` // of its secret so far
	Next    string `json:"next,omitempty"`    // the secret that it is being changed to; no token has it
}

// Fleet is the ID of the fleet, which a change of its secret leaves as it is: by default it is made of the secret.
func (m Membership) Fleet() string {
	sum := sha256.Sum256([]byte("fetcher fleet id 1" + m.Secret))
	return cmp.Or(m.ID, hex.EncodeToString(sum[:16]))
}

// MembershipName is the file of a state directory that keeps the membership.
const MembershipName = "fleet.json"

const (
	tokenMark     = "fleet1."
	maxMembership = 64 << 10 // bytes of the file
	maxSecretFile = 4 << 10  // bytes
)

// ErrMembership is wrapped by errors about text that is not a membership of a fleet.
var ErrMembership = errors.New("not a membership of a fleet")

// Joined returns the membership stored in a state directory; ok is false if there is none.
func Joined(dir string) (m Membership, ok bool, err error) {
	path := filepath.Join(dir, MembershipName)
	b, err := readUpTo(path, maxMembership)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, false, nil
	case err != nil:
		return m, false, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	if json.Unmarshal(b, &m) != nil || m.check() != nil {
		return m, false, words.Error(ErrMembership, "%s holds no valid membership of a fleet: remove that file, and join the fleet again", path)
	}
	return m, true, nil
}

// MembershipOf returns the membership with a URL and the secret in a file.
func MembershipOf(url, file string) (m Membership, err error) {
	if m.URL, err = kvurl.Absolute(url); err != nil {
		return m, err
	}
	b, err := readUpTo(file, maxSecretFile)
	if err != nil {
		return m, words.Error(ErrMembership, "the secret of the fleet cannot be read: %s", words.Plain(err))
	}
	m.Secret = strings.TrimSpace(string(b))
	if err := m.check(); err != nil {
		return m, words.Error(ErrMembership, "the secret of the fleet in %s cannot be used: %v", file, err)
	}
	return m, nil
}

func readUpTo(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

func (m Membership) check() error {
	switch n := len(m.Secret); {
	case n < 16 || n > 1024:
		return fmt.Errorf("it has %s, and must have 16 to 1024", words.Count(n, "byte"))
	case m.URL == "":
		return errors.New("it names no store")
	}
	return nil
}

// Token returns the membership as one word, with which other machines join.
func (m Membership) Token() string {
	m.Next = "" // nobody else's business, and perhaps never used
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // cannot fail: text
	}
	return tokenMark + base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken reads what Token writes.
func ParseToken(s string) (m Membership, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), tokenMark)
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if !ok {
		return Membership{}, words.Error(ErrMembership, "this is not a fleet token, which begins with %q", tokenMark)
	}
	if err != nil || json.Unmarshal(b, &m) != nil || m.check() != nil {
		return Membership{}, words.Error(ErrMembership, "the fleet token is damaged")
	}
	m.Next = ""
	return m, nil
}

// Save stores the membership in a state directory, readable only by this user. It does not
// overwrite the membership of another fleet, one that it cannot read, or a later secret; and a secret that the fleet
// is perhaps being changed to is kept until it is the fleet's.
func (m Membership) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	path := filepath.Join(dir, MembershipName)
	old, ok, err := Joined(dir)
	if err != nil {
		return err
	}
	switch {
	case !ok:
	case old.Fleet() != m.Fleet():
		return errors.New("this machine belongs to another fleet; to leave that fleet, run fetcher fleet leave")
	case m.Changes < old.Changes:
		return fmt.Errorf("the token or secret that was given is older than the one in %s; on this machine, fetcher fleet invite prints the current token", path)
	case m.Changes == old.Changes && m.Secret != old.Secret:
		return fmt.Errorf("%s has another secret for this fleet, and only one of the two can be right: to use the one that you gave, remove that file", path)
	case old.Next != m.Secret:
		m.Next = cmp.Or(old.Next, m.Next)
	}
	return m.write(path)
}

func (m Membership) write(path string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := replace(path, append(b, '\n')); err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	return nil
}

// Leave removes the membership from a state directory. It does not while the secret of the fleet is perhaps changed in part,
// because nobody else may know the new one.
func Leave(dir string) error {
	m, ok, err := Joined(dir)
	switch {
	case err != nil:
		return err
	case !ok:
		return words.Error(ErrMembership, `this machine has joined no fleet, or has left the one that it had joined: a node that still runs here leaves that fleet when it is restarted. To leave a fleet that is named by the setting "fleet", in %s or as a flag, remove that setting`, SettingsName)
	case m.Next != "":
		return errors.New("a change of the fleet's secret was cut short on this machine: first finish it: repeat the \"fetcher fleet invite\" that began it, with the same options")
	}
	return os.Remove(filepath.Join(dir, MembershipName))
}

// replace writes a small file of a state directory durably, readable only by this user.
func replace(path string, b []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".fleet-*") // 0600
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "create", Path: path, Err: at.Err} // nobody knows the other name
	} else if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	fsys, err := vfs.Dir(dir)
	if err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir("."), fsys.Close())
}

// ChangeSecret gives the fleet another secret, and returns the membership with it. Before anything is changed in the
// store, a state directory keeps the new secret, and afterwards the new membership: after a failure, change it again. One
// that was begun before is finished. If the store refuses the first attempt, it has nothing of the new secret, and the membership is as before.
func (m Membership) ChangeSecret(ctx context.Context, dir string, change func(ctx context.Context, secret string) error) (Membership, error) {
	before, ok, err := Joined(dir)
	if err != nil {
		return m, err
	}
	if !ok {
		before = m
	}
	m.ID, m.Next = m.Fleet(), cmp.Or(m.Next, rand.Text()+rand.Text())
	if err := m.Save(dir); err != nil {
		return m, err
	}
	kept, _, err := Joined(dir) // as it may have been begun before
	if err != nil {
		return m, err
	}
	made := m.Next
	m.Next = kept.Next
	if err := change(ctx, m.Next); errors.Is(err, fetcher.ErrOtherFleet) {
		if now, _, err2 := Joined(dir); err2 == nil && before.Next == "" && now == kept && now.Next == made {
			err = errors.Join(err, before.write(filepath.Join(dir, MembershipName)))
		}
		return m, err
	} else if err != nil {
		return m, fmt.Errorf("%w; the change of the secret may be only half done, so repeat the command", err)
	}
	m.Secret, m.Next, m.Changes = m.Next, "", m.Changes+1
	return m, m.Save(dir)
}

// Found founds a fleet: the membership is stored in a state directory before claim marks the store as the fleet's, as
// a claimed store is of no use to anybody once its secret is lost. If the store is another fleet's, the machine
// belongs to none; after any other error it is not known whether it was claimed, so the membership stays.
func (m Membership) Found(ctx context.Context, dir string, claim func(context.Context) error) error {
	if err := m.Save(dir); err != nil {
		return err
	}
	err := claim(ctx)
	if errors.Is(err, fetcher.ErrOtherFleet) {
		return errors.Join(err, os.Remove(filepath.Join(dir, MembershipName)))
	}
	return err
}
