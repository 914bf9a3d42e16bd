package v1

// A SettingList is the answer to GET /v1/settings. [V1-24]
type SettingList struct {
	Settings []Setting `json:"settings" doc:"in the order of tenaq config"`
}

// A Setting is a setting of the server as people see it: its value has no password.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value" doc:"empty if it is not set"`
	Origin string `json:"origin" doc:"a flag, a variable, a line of the configuration file, or default"`
}

// settings answers GET /v1/settings.
func (c *call) settings(none) (SettingList, error) { return SettingList{c.cfg.Settings}, nil }
