"""WebShop: the shop, its products, search, pages, goals, reward and the environments (`agentgym.webshop.env`)."""
