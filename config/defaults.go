package config

import "playground/jail"

// defaults returns the values of a host whose file is empty. It is the only place that holds one;
// etc/playground.toml.sample repeats them for people and a test keeps the two equal.
func defaults() raw {
	return raw{
		Host: rawHost{
			Prefix:     "pg",
			StateDir:   "/var/db/playground",
			RunDir:     "/var/run/playground",
			LibexecDir: "/usr/local/libexec/playground",
			DaemonUser: "playground",

			SecurelevelMin: 1, // the first at which host root cannot lift append-only
		},
		HTTP: rawHTTP{
			Listen:            "127.0.0.1:8787",
			BodyBytes:         5 << 20, // room for file_bytes in base64
			SessionIdle:       "30m",
			SessionsPerTenant: 64,
			Catalogue:         string(CatalogueSandbox),
		},
		Sandbox: rawSandbox{
			Isolation: isolationAuto,
			Network:   string(jail.NetworkNone),
			HandleTTL: "12h",
			UIDBase:   1_000_000,
			Lang:      "C.UTF-8",
			Path:      "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",

			Storage: string(jail.StorageDir), Template: jail.DefaultTemplate, Addresses: jail.DefaultAddresses,
		},
		Jobs: rawJobs{
			ActivePerTenant:   8,
			ActivePerHost:     32,
			RetainedPerTenant: 8,
			RetainedPerHost:   64,
			RingBytes:         4 << 20,
			RingChunks:        1024,
			PageBytes:         256 << 10,
			CommandBytes:      64 << 10,
			FileBytes:         3 << 20,
			TextBytes:         32 << 10,
			TTL:               "1h",
			ExecDefault:       "45s",
			ExecMax:           "280s",
			JobMax:            "24h",
			WaitMax:           "25s",
			TermGrace:         "500ms",
			ProofDeadline:     "15s",
			Warm:              2,
		},
		Resources: rawResources{
			Processes: 256, Threads: 2048, OpenFiles: 16384, CPUPercent: 200, Pseudoterminals: 16,
			Swap:           3 << 30,
			Memory:         5 << 29, // 2.5 GiB
			WritePerSecond: 100 << 20,
		},
		Gateway: gatewayDefaults(),
		Work:    workDefaults(),
		Log:     rawLog{Level: "info"},
	}
}

// isolationAuto is the file's word for the platform's own isolation.
const isolationAuto = "auto"

// platform is what differs between the systems the daemons run on.
type platform struct {
	auto       jail.Isolation
	isolations []string
	networks   []string
	storages   []string
}

// platformOf returns goos's row; ok is false where no isolation exists.
func platformOf(goos string) (p platform, ok bool) {
	switch goos {
	case "freebsd":
		return platform{
			auto:       jail.IsolationJail,
			isolations: []string{isolationAuto, string(jail.IsolationJail), string(jail.IsolationNone)},
			networks: []string{string(jail.NetworkNone), string(jail.NetworkInherit), string(jail.NetworkAddress),
				string(jail.NetworkVNET)},
			storages: []string{string(jail.StorageDir), string(jail.StorageZFS)},
		}, true
	case "linux":
		return platform{
			auto:       jail.IsolationNamespaces,
			isolations: []string{isolationAuto, string(jail.IsolationNamespaces), string(jail.IsolationNone)},
			networks:   []string{string(jail.NetworkNone), string(jail.NetworkHost)},
			storages:   []string{string(jail.StorageDir)},
		}, true
	}
	return platform{}, false
}

// Default returns the validated defaults for goos. It panics where the daemons cannot run at all: there is nothing to
// fall back to.
func Default(goos string) Config {
	c, err := defaults().validate(goos, nil)
	if err != nil {
		panic("internal error: the defaults are not valid on " + goos + ": " + err.Error())
	}
	return c
}
