package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/pelletier/go-toml/v2"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/discovery"
	"github.com/piecelease/fetcher/discovery/dht"
	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// Config configures a daemon. The zero value works.
type Config struct {
	// Dir is the state directory; default fetcher.DefaultDir. One daemon at a time has it.
	Dir string
	// Settings are what node.toml may contain, and a reload may change.
	Settings
	// Logger gets what an operator should know; default none.
	Logger *slog.Logger

	simulated func(*fetcher.Config) // for tests: puts the node into a simulated network, without reports of changed files
}

// Settings are the part of the configuration that node.toml holds.
type Settings struct {
	// Into is the default folder for shares; absolute. If it is empty, it is "Downloads" in the
	// home of the user, or "shares" in Dir if there is none.
	Into string
	// Listen and Announce are as in fetcher.Config. A reload does not change them.
	Listen, Announce []string
	// Via are relays through which others reach the node; MapPort asks the router to forward
	// its port; with Relay it is a relay itself, which carries RelayCarries bytes of content
	// for a connection each way. See fetcher.Reach. A reload does not change them.
	Via            []string
	MapPort, Relay bool
	RelayCarries   int64
	// Proxy is as in fetcher.Reach. A reload does not change it.
	Proxy string
	// BeaconAt are beacons that the node's tickets name; with Beacon it is one itself. See
	// fetcher.Beacons. A reload does not change them.
	BeaconAt []string
	Beacon   bool
	// DHT says which distributed hash table the node uses, as in dht.Parse; empty: none. A reload
	// does not change it.
	DHT []string
	// NoLAN keeps the node from looking for peers on the local network, and from being
	// found there. A reload does not change it.
	NoLAN bool
	// Up and Down limit uploads and downloads, in bytes per second; 0 is no limit.
	Up, Down int64
	// Schedule says when other limits apply.
	Schedule []Slot
	// Fetches is how many shares are fetched at once; default 5.
	Fetches int
	// Rescan is how often served files are checked for changes that the system did not
	// report; default 1 h.
	Rescan time.Duration
	// Depot is a folder in which shares are kept for accounts, absolute; empty is none. It
	// must be empty the first time. A reload does not change it, nor the next three.
	Depot string
	// Reserve is how many bytes of its disk stay free.
	Reserve int64
	// DepotOpen is the quota, in bytes, of each peer that has no account; 0: it gets none.
	DepotOpen int64
	// DepotGrace is how long a share is kept there after its last lease expired, in whole
	// seconds up to a year; default 24 h.
	DepotGrace time.Duration
	// DepotPaid says that new accounts there, and peers that have none, pay with passes.
	DepotPaid bool
	// Fleet is the URL of the store of the node's fleet, and FleetSecret a file with the
	// secret of its members. They default to the fleet that was joined (see Membership), or
	// none. A reload does not change them.
	Fleet, FleetSecret string
	// Name is what this machine is called in the fleet's status; default the host's name. At most 64
	// bytes. A reload does not change it.
	Name string
	// Socket is the path of another unix socket, at which the API answers all members of the
	// group that the process runs as; empty is none. A reload does not change it, nor what follows.
	Socket string
	// HTTP is an IP address and port at which the API also answers those who know the token;
	// empty is none.
	HTTP string
	// Hosts are more names, with ports, by which HTTP may be addressed.
	Hosts []string
	// Cert and Key are PEM files for TLS at HTTP.
	Cert, Key string
	// Insecure allows an HTTP address that others can reach without TLS.
	Insecure bool
}

const (
	defaultFetches = 5
	defaultRescan  = time.Hour
	maxMachine     = 64 // bytes of the name of a machine
)

// reach says how the node reaches others, and is reached: tickets may name relays at any time.
func (s Settings) reach() fetcher.Reach {
	return fetcher.Reach{Traverse: true, MapPorts: s.MapPort, Relays: s.Via, Relay: s.Relay, RelayBytes: s.RelayCarries, Proxy: s.Proxy}
}

// beacons says how the node uses beacons: tickets may name some at any time.
func (s Settings) beacons() fetcher.Beacons {
	return fetcher.Beacons{Use: true, At: s.BeaconAt, Serve: s.Beacon}
}

// discovery says how the node finds others, and is found; nil: not at all.
func (c Config) discovery() fetcher.Discovery {
	var all fetcher.Discoveries
	if !c.NoLAN && c.simulated == nil {
		all = append(all, discovery.NewLAN(c.Logger))
	}
	if len(c.DHT) > 0 && c.simulated == nil {
		cfg, _ := dht.Parse(c.DHT) // validate has looked
		cfg.Entry, cfg.Logger = slices.Concat(cfg.Entry, c.BeaconAt, c.Via), c.Logger
		if d, err := dht.New(cfg); err == nil {
			all = append(all, d)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// withDefaults fills in the defaults, and returns an error that names what is out of range.
func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dir == "" {
		dir, err := fetcher.DefaultDir()
		if err != nil {
			return c, err
		}
		c.Dir = dir
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	c.Dir = dir
	c.Settings, err = c.Settings.withDefaults(c.Dir)
	return c, err
}

// ErrSettings is wrapped by errors about settings that cannot be.
var ErrSettings = errors.New("the settings cannot be used")

func (s Settings) withDefaults(dir string) (Settings, error) {
	s, err := s.checked(dir, asInFile)
	if err != nil {
		err = words.Error(ErrSettings, "%v", err)
	}
	return s, err
}

// Names is how settings are called where they were given, by their names in node.toml.
type Names func(setting string) string

func asInFile(setting string) string { return setting }

// each checks the settings one by one.
func (s Settings) each(called Names) error {
	var f bounds.Fields
	checkRate(&f, called("limit-up"), s.Up)
	checkRate(&f, called("limit-down"), s.Down)
	bounds.In(&f, called("fetches"), s.Fetches, 1, 1000)
	bounds.In(&f, called("rescan"), s.Rescan, time.Second, 366*24*time.Hour)
	const least, most = int64(1 << 20), int64(1 << 50)
	if c := s.RelayCarries; c != 0 && (c < least || c > most) {
		f.Add(called("relay-carries"), fmt.Errorf("it must be from %d bytes (%s) to %s, not %s; without it, no content is carried", least, share.Size(least), share.Size(most), share.Size(c)))
	}
	if len(s.Name) > maxMachine || strings.ContainsFunc(s.Name, unicode.IsControl) {
		f.Add(called("name"), fmt.Errorf("it must have at most %d bytes and no control characters, not %q", maxMachine, s.Name))
	}
	for _, x := range []struct{ of, path string }{{"socket", s.Socket}, {"fleet-secret", s.FleetSecret}, {"depot", s.Depot}, {"into", s.Into}} {
		if x.path != "" && !filepath.IsAbs(x.path) {
			f.Add(called(x.of), fmt.Errorf("it must be a path from the root, such as /srv/x, not %q", x.path))
		}
	}
	return f.Err()
}

// Validate says what of the settings cannot be. It asks neither the system nor the network.
func (s Settings) Validate() error { return s.ValidateAs(asInFile) }

// ValidateAs is Validate for settings that have other names where they were given.
func (s Settings) ValidateAs(called Names) error {
	if err := s.addresses(called); err != nil {
		return err
	}
	if _, err := s.checked("/", called); err != nil {
		return words.Error(ErrSettings, "%v", err)
	}
	return nil
}

func (s Settings) checked(dir string, called Names) (Settings, error) {
	if err := s.each(called); err != nil {
		return s, err
	}
	var f bounds.Fields
	relay, depot, http := !s.Relay, s.Depot == "", s.HTTP == ""
	for _, x := range []struct {
		setting  string
		lost     bool
		of, what string
	}{
		{"relay-carries", relay && s.RelayCarries > 0, "relay", "a relay"},
		{"depot-reserve", depot && s.Reserve > 0, "depot", "a depot"},
		{"depot-open", depot && s.DepotOpen > 0, "depot", "a depot"},
		{"depot-grace", depot && s.DepotGrace > 0, "depot", "a depot"},
		{"depot-price", depot && s.DepotPaid, "depot", "a depot"},
		{"http-hosts", http && len(s.Hosts) > 0, "http", called("http")},
		{"http-cert", http && s.Cert != "", "http", called("http")},
		{"http-key", http && s.Key != "", "http", called("http")},
		{"http-insecure", http && s.Insecure, "http", called("http")},
	} {
		if x.lost {
			f.Add(called(x.setting), fmt.Errorf("it is for %s: set %s too", x.what, called(x.of)))
		}
	}
	f.Add(called("http"), s.checkHTTP(called))
	if err := f.Err(); err != nil {
		return s, err
	}
	bounds.Default(&s.Fetches, defaultFetches)
	bounds.Default(&s.Rescan, defaultRescan)
	if s.Into == "" {
		s.Into = filepath.Join(dir, "shares")
		if home, err := os.UserHomeDir(); err == nil {
			if info, err := os.Stat(home); err == nil && info.IsDir() {
				s.Into = filepath.Join(home, "Downloads")
			}
		}
	}
	if (s.Fleet == "") != (s.FleetSecret == "") {
		return s, fmt.Errorf("%s, the URL of the fleet's store, and %s, the file with the fleet's secret, go together: set both, or set neither and use fetcher fleet join", called("fleet"), called("fleet-secret"))
	}
	return s, nil
}

// checkHTTP refuses to serve the API to other machines without TLS, unless Insecure allows it.
func (s Settings) checkHTTP(called Names) error {
	if s.HTTP == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(s.HTTP)
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q is not an address to answer at: a port is a number, at most 65535", s.HTTP)
	}
	if err != nil {
		return fmt.Errorf("give an address to answer at, such as 127.0.0.1:4820, not %q", s.HTTP)
	}
	ip := net.ParseIP(host)
	switch {
	case host != "localhost" && ip == nil:
		return fmt.Errorf("an address to answer at begins with an IP address or localhost, not %q", host)
	case (s.Cert == "") != (s.Key == ""):
		return fmt.Errorf("TLS needs both %s and %s", called("http-cert"), called("http-key"))
	case s.Cert == "" && !s.Insecure && ip != nil && !ip.IsLoopback():
		return fmt.Errorf("%s can be reached by others, who could read the token on its way: give %s and %s, or %s", s.HTTP, called("http-cert"), called("http-key"), called("http-insecure"))
	}
	return nil
}

// settingsFile is the form of node.toml.
type settingsFile struct {
	Into     string     `toml:"into"`
	Listen   []string   `toml:"listen"`
	Announce []string   `toml:"announce"`
	Via      []string   `toml:"via"`
	MapPort  bool       `toml:"map-port"`
	Proxy    string     `toml:"proxy"`
	Relay    bool       `toml:"relay"`
	LAN      *bool      `toml:"lan"`
	BeaconAt []string   `toml:"beacon-at"`
	Beacon   bool       `toml:"beacon"`
	DHT      []string   `toml:"dht"`
	Carries  string     `toml:"relay-carries"`
	Up       string     `toml:"limit-up"`
	Down     string     `toml:"limit-down"`
	Limits   []slotFile `toml:"limits"`
	Fetches  int        `toml:"fetches"`
	Rescan   string     `toml:"rescan"`
	Depot    string     `toml:"depot"`
	Reserve  string     `toml:"depot-reserve"`
	Open     string     `toml:"depot-open"`
	Grace    string     `toml:"depot-grace"`
	Price    string     `toml:"depot-price"`
	Fleet    string     `toml:"fleet"`
	Secret   string     `toml:"fleet-secret"`
	Name     string     `toml:"name"`
	Socket   string     `toml:"socket"`
	HTTP     string     `toml:"http"`
	Hosts    []string   `toml:"http-hosts"`
	Cert     string     `toml:"http-cert"`
	Key      string     `toml:"http-key"`
	Insecure bool       `toml:"http-insecure"`
}

type slotFile struct {
	Days []string `toml:"days"`
	From string   `toml:"from"`
	To   string   `toml:"to"`
	Up   string   `toml:"up"`
	Down string   `toml:"down"`
}

// maxFile bounds node.toml, in bytes.
const maxFile = 1 << 20

// ReadSettings reads node.toml. A missing file means empty settings.
func ReadSettings(path string) (Settings, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Settings{}, nil
	case err != nil:
		return Settings{}, err
	case len(b) > maxFile:
		return Settings{}, fmt.Errorf("%s has %d bytes; at most %d are read", path, len(b), maxFile)
	}
	s, err := parseSettings(b)
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// formOf says how the value of a key is written in TOML, which has a Go type.
func formOf(key, of string) string {
	switch of = strings.TrimPrefix(of, "*"); {
	case key == "limits":
		return "tables, each under a line [[limits]]"
	case strings.HasPrefix(of, "[]"):
		return "a list of texts in quotes, such as [\"a\", \"b\"]"
	case of == "bool":
		return "true or false, without quotes"
	case strings.HasPrefix(of, "int"):
		return "a whole number, without quotes"
	}
	return "text in quotes, as in " + key + ` = "..."`
}

// settingAt returns the setting on a line of a file, and its Go type; "" if there is none.
func settingAt(b []byte, row int) (key, of, value string) {
	line := append(strings.Split(string(b), "\n"), "")[row-1]
	key, value, _ = strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	for _, t := range []reflect.Type{reflect.TypeFor[settingsFile](), reflect.TypeFor[slotFile]()} {
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("toml") == key {
				return key, f.Type.String(), value
			}
		}
	}
	return "", "", ""
}

// unread says, for people, why b is no settings.
func unread(b []byte, err error) error {
	var strict *toml.StrictMissingError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		row, _ := strict.Errors[0].Position()
		return fmt.Errorf("line %d: there is no setting %q", row, strings.Join(strict.Errors[0].Key(), "."))
	case errors.As(err, &decode):
		row, _ := decode.Position()
		why := strings.TrimPrefix(decode.Error(), "toml: ")
		wrong := fmt.Sprint(toml.Unmarshal(b, new(map[string]any))) != err.Error() // it is TOML: its type is, and the text speaks of this program
		if key, of, value := settingAt(b, row); of != "" && !strings.HasSuffix(why, "is already defined") && (wrong || !strings.ContainsAny(value[:min(1, len(value))], `"'[`) && !strings.HasPrefix(of, "int")) {
			why = key + " takes " + formOf(key, of)
		} else if strings.HasSuffix(why, "strings cannot have new lines") || strings.HasPrefix(why, "unterminated") {
			why = "the text lacks the quotation mark at its end"
		} else if wrong {
			why = strings.Join(decode.Key(), ".") + " has a value of the wrong kind"
		}
		return fmt.Errorf("line %d cannot be read: %s", row, why)
	}
	return err
}

func parseSettings(b []byte) (s Settings, err error) {
	var f settingsFile
	d := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return s, unread(b, err)
	}
	s = Settings{Into: f.Into, Listen: f.Listen, Announce: f.Announce, Via: f.Via, MapPort: f.MapPort, Proxy: f.Proxy, Relay: f.Relay, BeaconAt: f.BeaconAt, Beacon: f.Beacon, DHT: f.DHT, NoLAN: f.LAN != nil && !*f.LAN, Fetches: f.Fetches, Depot: f.Depot, Fleet: f.Fleet, FleetSecret: f.Secret, Name: f.Name, Socket: f.Socket, HTTP: f.HTTP, Hosts: f.Hosts, Cert: f.Cert, Key: f.Key, Insecure: f.Insecure}
	if err := s.addresses(asInFile); err != nil {
		return s, err
	}
	for _, x := range []struct {
		setting, text string
		to            *int64
		parse         func(string) (int64, error)
	}{{"limit-up", f.Up, &s.Up, ParseRate}, {"limit-down", f.Down, &s.Down, ParseRate}, {"relay-carries", f.Carries, &s.RelayCarries, ParseSize},
		{"depot-reserve", f.Reserve, &s.Reserve, ParseSize}, {"depot-open", f.Open, &s.DepotOpen, ParseSize}} {
		if *x.to, err = x.parse(x.text); err != nil {
			return s, fmt.Errorf("%s: %w", x.setting, err)
		}
	}
	if s.DepotGrace, err = ParseTime(f.Grace); err != nil {
		return s, fmt.Errorf("depot-grace: %w", err)
	}
	if s.DepotPaid, err = ParsePrice(f.Price); err != nil {
		return s, fmt.Errorf("depot-price: %w", err)
	}
	if s.Rescan, err = ParseTime(f.Rescan); err != nil {
		return s, fmt.Errorf("rescan: %w", err)
	}
	for i, l := range f.Limits {
		slot, err := l.slot()
		if err != nil {
			return s, fmt.Errorf("limits, number %d: %w", i+1, err)
		}
		s.Schedule = append(s.Schedule, slot)
	}
	return s, s.each(asInFile)
}

// addresses checks those that would keep the node from its next start.
func (s Settings) addresses(called Names) error {
	if s.Proxy != "" {
		if err := fetcher.CheckProxy(s.Proxy); err != nil {
			return fmt.Errorf("%s: %w", called("proxy"), err)
		}
	}
	if err := (fetcher.Beacons{Use: true, At: s.BeaconAt}).Validate(); err != nil {
		return fmt.Errorf("%s: %w", called("beacon-at"), err)
	}
	if _, err := dht.Parse(s.DHT); err != nil {
		return fmt.Errorf("%s: %w", called("dht"), err)
	}
	for _, x := range []struct {
		of  string
		err error
	}{{"listen", fetcher.CheckAddrs(s.Listen, nil, nil)}, {"announce", fetcher.CheckAddrs(nil, s.Announce, nil)}, {"via", fetcher.CheckAddrs(nil, nil, s.Via)}} {
		if x.err != nil {
			return fmt.Errorf("%s: %w", called(x.of), x.err)
		}
	}
	return nil
}

func (f slotFile) slot() (s Slot, err error) {
	if s.Days, err = parseDays(f.Days); err != nil {
		return s, err
	}
	if missing := missing(f.From, f.To); missing != "" {
		return s, fmt.Errorf("%s missing: limits apply from one time of day to another, as in from = \"08:00\" and to = \"18:00\"", missing)
	}
	if s.From, err = parseClock(f.From); err != nil {
		return s, fmt.Errorf("from: %w", err)
	}
	if s.To, err = parseClock(f.To); err != nil {
		return s, fmt.Errorf("to: %w", err)
	}
	if s.Up, err = ParseRate(f.Up); err != nil {
		return s, fmt.Errorf("up: %w", err)
	}
	if s.Down, err = ParseRate(f.Down); err != nil {
		return s, fmt.Errorf("down: %w", err)
	}
	return s, nil
}

// missing says which of two keys have no value.
func missing(from, to string) string {
	switch {
	case from == "" && to == "":
		return "from and to are"
	case from == "":
		return "from is"
	case to == "":
		return "to is"
	}
	return ""
}
