from mcf_cli.cli.main import run_cli

run_cli()
