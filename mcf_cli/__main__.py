from mcf_cli.commands.main import run

run()
