# One server on Nomad 1.7 or later, with the Docker driver and its data in a volume of the host.
#
# 1. On one client, and on no other, declare the volume in the configuration of the agent. Another client would
#    start the server with an empty volume.
#
#      client { host_volume "tenaq" { path = "/srv/tenaq" } }
#
#    install -d -o 65532 -g 65532 -m 0700 /srv/tenaq      # the user of the image
#
# 2. Store the keys of the clients, one or many, as docs/access.md has them. With "secret" and not "secret-file":
#
#    nomad var put nomad/jobs/tenaq keys=@keys.json
#
# 3. Run the job:
#
#    nomad job run -var image=registry.example.com/tenaq:0.2.0 single.nomad.hcl
#
# Clients use port 9324 of the client, or the service "tenaq" of Nomad. After a change of the variable the server
# reads the keys again, without a restart.

variable "image" {
  type        = string
  description = "The image in your registry. None is built in."
}

job "tenaq" {
  group "server" {
    shutdown_delay = "5s" # clients that ask Nomad for the address leave first

    network {
      port "sqs" {
        static = 9324
        to     = 9324
      }
      port "admin" {
        static = 9325
        to     = 9325
      }
    }

    volume "data" {
      type   = "host"
      source = "tenaq"
    }

    restart {
      attempts = 5
      interval = "5m"
      delay    = "5s"
      mode     = "delay" # only this client has the data
    }

    update {
      max_parallel     = 1
      health_check     = "checks"
      min_healthy_time = "10s"
      healthy_deadline = "5m" # opening a large store takes a while
    }

    service {
      name     = "tenaq"
      provider = "nomad"
      port     = "sqs"

      check {
        name     = "ready" # not ready: it lacks disk space, or stops
        type     = "http"
        port     = "admin"
        path     = "/readyz"
        interval = "5s"
        timeout  = "2s"
      }
    }

    service {
      name     = "tenaq-admin" # for Prometheus: /metrics
      provider = "nomad"
      port     = "admin"

      check {
        name     = "live" # not live: the disk does not finish what it began
        type     = "http"
        path     = "/livez"
        interval = "10s"
        timeout  = "5s"

        check_restart {
          limit = 3
          grace = "5m"
        }
      }
    }

    task "tenaq" {
      driver       = "docker"
      kill_signal  = "SIGTERM"
      kill_timeout = "20s" # a server takes at most ten seconds

      config {
        image           = var.image
        args            = ["serve", "--log-format", "json"]
        ports           = ["sqs", "admin"]
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]
      }

      env {
        TENAQ_LISTEN       = "0.0.0.0:9324"
        TENAQ_ADMIN_LISTEN = "0.0.0.0:9325"
        TENAQ_DATA_DIR     = "/var/lib/tenaq/data"
        TENAQ_CREDENTIALS  = "${NOMAD_SECRETS_DIR}/keys.json"
      }

      template {
        data          = "{{ with nomadVar \"nomad/jobs/tenaq\" }}{{ .keys }}{{ end }}"
        destination   = "secrets/keys.json"
        perms         = "0400"
        uid           = 65532
        gid           = 65532
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/tenaq"
      }

      resources {
        cpu    = 1000
        memory = 1024
      }
    }
  }
}
